/* Faults on request, to prove that the sanitizers the tests rely on are awake. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *increment(void *word)
{
    ++*(volatile int *)word;
    return NULL;
}

static void race(void)
{
    int word = 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, increment, &word);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void overflow(size_t length)
{
    volatile char *bytes = malloc(length);
    bytes[length] = 1;
    free((void *)bytes);
}

static void misaligned(int offset)
{
    static _Alignas(8) char bytes[16];
    volatile int32_t *word = (volatile int32_t *)(void *)(bytes + offset);
    *word = 1;
}

int main(int argc, char **argv)
{
    const char *what = argv[1];
    if (!strcmp(what, "print"))
        puts(argv[2]);
    else if (!strcmp(what, "race"))
        race();
    else if (!strcmp(what, "overflow"))
        overflow((size_t)argc);
    else if (!strcmp(what, "misaligned"))
        misaligned(argc - 1);
    return 0;
}
