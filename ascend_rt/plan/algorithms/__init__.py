"""The algorithms: functions of 5 to 40 lines that emit the steps of one rank."""
