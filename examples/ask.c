/* Does a plan fit, with which batch? cc ask.c $(pkg-config --cflags --libs meshwright) && ./a.out plan.json */
#include <meshwright.h>

#include <stdio.h>

int main(int count, char **arguments)
{
    static const char *const batches[] = {"256", "512", "1024", "2048", "4096"};
    struct meshwright *session = meshwright_open();
    if (count != 2 || !session || meshwright_api_version() != MESHWRIGHT_API_VERSION) {
        fprintf(stderr, "usage: ask PLAN.json\n");
        meshwright_close(session);
        return 2;
    }
    int worst = 0;
    for (int i = 0; i < 5; i++) {
        const char *const words[] = {"predict", arguments[1], "--batch-size", batches[i]}, *answer;
        int exit_code = meshwright_ask(session, 4, words, &answer);
        printf("batch %-5s %s\n", batches[i], exit_code == 0 ? "fits" : exit_code == 4 ? "does not fit" : answer);
        if (exit_code != 0 && exit_code != 4) worst = exit_code;
    }
    meshwright_close(session);
    return worst;
}
