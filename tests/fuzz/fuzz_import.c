/* Files of other software, as a script, TOML, YAML or JSON by their content: a plan that is read from one can be
 * written as JSON, and reading twice gives the same. Nothing in them is run. */
#include "tests/fuzz/fuzz.h"

static void check(struct base_arena *arena, const char *text, size_t length)
{
    struct base_error error;
    const char *const kinds[] = {"megatron", "maxtext", "torchtitan", "nanotron", "deepspeed", "axolotl"};
    for (int i = 0; i < BASE_COUNT(kinds); i++) {
        const char *arguments[] = {fuzz_file(text, length), "--from", kinds[i], "--topology", "h100:2x8", "--json"};
        const char *once = fuzz_command(arena, "import", BASE_COUNT(arguments), arguments, &error);
        if (!once) continue;
        fuzz_parse(arena, once);
        FUZZ_CHECK(fuzz_same(once, fuzz_command(arena, "import", BASE_COUNT(arguments), arguments, &error)));
    }
}

FUZZ_TARGET(check, 120)
