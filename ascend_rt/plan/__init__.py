"""How a collective is done, as data: the step language, what each collective means, the algorithms and their proof."""
