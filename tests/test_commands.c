/* Tests of commands/: what the tables say in help, man page and completion, and what the program does with hostile
 * surroundings. They run the program that was built beside them. */
#define _XOPEN_SOURCE 700 /* mkdtemp, realpath */
#include "tests/test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"
#include "sim/program/session_cache.h"

static char program[4096], program_folder[4096];

/* ---- running things ---- */

/* Standard output and exit status of a shell command. */
static const char *run(struct base_arena *arena, int *exit_status, const char *command)
{
    struct base_text text = {.arena = arena};
    char block[4096];
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    for (size_t got; (got = fread(block, 1, sizeof block, pipe)) > 0;) base_put_bytes(&text, block, got);
    int status = pclose(pipe);
    *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    base_put(&text, "");
    return text.data;
}

static bool has_program(struct base_arena *arena, const char *name)
{
    int status;
    run(arena, &status, base_print(arena, "command -v %s", name));
    return status == 0;
}

/* A fresh folder, to be removed by the test. */
static const char *new_folder(struct base_arena *arena)
{
    char *path = base_copy(arena, "/tmp/meshwright-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static void remove_folder(struct base_arena *arena, const char *path)
{
    int status;
    run(arena, &status, base_print(arena, "rm -rf '%s'", path));
    assert_int_equal(status, 0);
}

static const char *write_temporary(struct base_arena *arena, const char *folder, const char *name, const char *text)
{
    struct base_error error;
    const char *path = base_print(arena, "%s/%s", folder, name);
    assert_ok(base_write_file(path, text, strlen(text), &error), &error);
    return path;
}

/* ---- help ---- */

static int columns_of(const char *line, size_t length)
{
    int columns = 0;
    for (size_t i = 0; i < length; i++) columns += ((unsigned char)line[i] & 0xc0) != 0x80;
    return columns;
}

static bool is_one_word(const char *line, size_t length)
{
    size_t blanks = strspn(line, " ");
    return memchr(line + blanks, ' ', length - blanks) == NULL;
}

static void every_help_is_complete_and_narrow(struct base_arena *arena)
{
    enum { WIDEST = 92 };
    int count;
    const struct commands_command *const *all = commands_all(&count);
    for (int i = 0; i < count; i++) {
        struct base_text help = {.arena = arena};
        commands_help_on(all[i], &help);
        TEST_ROW("%s", all[i]->name);
        assert_non_null(strstr(help.data, base_print(arena, "usage: meshwright %s", all[i]->name)));
        int option_count;
        const struct base_option *options = commands_options(arena, all[i], &option_count);
        for (int j = 0; j < option_count; j++) {
            const struct base_option *option = &options[j];
            TEST_ROW("%s %s", all[i]->name, option->name);
            const char *value = option->value ? option->value : "";
            assert_true(strstr(help.data, base_print(arena, "\n  %s%s%s", option->name, *value ? " " : "", value)) ||
                        strstr(help.data, base_print(arena, "\n  %s\n      %s", option->name, value)));
            assert_true(strlen(option->help) > 0);
        }
        const char *examples = strstr(help.data, "\nexamples:\n");
        assert_non_null(examples);
        for (const char *line = help.data, *end; line < examples; line = end + 1) {
            end = strchr(line, '\n');
            TEST_ROW("%s: %.*s", all[i]->name, (int)(end - line), line);
            assert_true(columns_of(line, (size_t)(end - line)) <= WIDEST || is_one_word(line, (size_t)(end - line)));
        }
    }
}

static void messages_hold_no_control_characters(struct base_arena *arena)
{
    char *written;
    size_t length;
    FILE *stream = open_memstream(&written, &length);
    (void)arena;
    commands_say(stream, "quotes \033[31m \x7f\nand goes on");
    fclose(stream);
    assert_string_equal(written, "meshwright: quotes ?[31m ?\nand goes on\n");
    free(written);
}

static void every_option_table_is_well_formed(struct base_arena *arena)
{
    int count;
    const struct commands_command *const *all = commands_all(&count);
    for (int i = 0; i < count; i++) {
        int option_count;
        const struct base_option *options = commands_options(arena, all[i], &option_count);
        for (int j = 0; j < option_count; j++) {
            const struct base_option *option = &options[j];
            TEST_ROW("%s %s", all[i]->name, option->name);
            assert_memory_equal(option->name, "--", 2);
            assert_int_equal(strspn(option->name, "-abcdefghijklmnopqrstuvwxyz0123456789"), strlen(option->name));
            assert_true(!option->value || *option->value);
            assert_true(option->value || !option->fallback);
            for (int k = 0; k < j; k++) assert_string_not_equal(option->name, options[k].name);
        }
    }
}

/* Faster than any training is a fault, and no answer; above what is published it is said. */
static void steps_that_cannot_be_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *topology, *dtype;
        double mfu_frac;
        bool fits, refused, warned;
    } rows[] = {{"h100:1x8", "bfloat16", 0.60, true, false, false}, {"h100:1x8", "bfloat16", 0.70, true, false, true},
                {"h100:1x8", "bfloat16", 0.76, true, true, true},   {"h100:1x8", "bfloat16", 0.76, false, false, true},
                {"h100:1x8", "fp8", 0.76, true, false, false},      {"h100:1x8", "fp8", 1.40, true, true, true},
                {"local:8", "bfloat16", 0.90, true, false, false}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct commands_context context = {.arena = arena, .cache = cache};
        struct sim_plan_text text = {{[SIM_MODEL] = "llama2_7b",
                                      [SIM_TOPOLOGY] = rows[i].topology,
                                      [SIM_BATCH_SIZE] = "64",
                                      [SIM_TARGETS_LENGTH] = "2048",
                                      [SIM_SOFTWARE] = *rows[i].topology == 'l' ? NULL : "megatron",
                                      [SIM_DTYPE] = rows[i].dtype}};
        struct sim_plan plan;
        struct base_error error;
        const struct sim_prediction p = {.products_frac = rows[i].mfu_frac, .fits = rows[i].fits};
        TEST_ROW("%s %s %g", rows[i].topology, rows[i].dtype, rows[i].mfu_frac);
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_int_equal(commands_refuse_impossible(&context, &plan, &p, &error),
                         rows[i].refused ? BASE_INTERNAL : BASE_OK);
        commands_warn_of_speed(&context, &plan, &p);
        assert_int_equal(context.warning_count, rows[i].warned);
    }
    sim_cache_free(cache);
}

/* Each example of each command does what it shows, one after the other in one folder. */
static void every_example_runs(struct base_arena *arena)
{
    int count, status;
    const struct commands_command *const *all = commands_all(&count);
    const char *folder = new_folder(arena);
    run(arena, &status, base_print(arena, "cp -R examples '%s'", folder));
    assert_int_equal(status, 0);
    for (int i = 0; i < count; i++) {
        int lines = 0;
        for (const char *at = all[i]->examples; at && *at; at += strcspn(at, "\n") + 1, lines++) {
            int length = (int)strcspn(at, "\n");
            TEST_ROW("%.*s", length, at);
            assert_non_null(
                strstr(base_print(arena, "%.*s", length, at), base_print(arena, "meshwright %s", all[i]->name)));
            /* What serves is told to end once it has said where it serves, and ends well. `timeout` passes signals on,
             * where a shell's own children in the background would not hear them; in the foreground to its child alone:
             * sent to the whole group, they hung the leak check at the end in 0.5 % of rounds under sanitizers. */
            const char *form = all[i] == &commands_serve
                                   ? "rm -f address; timeout --foreground --preserve-status 600 %.*s >address "
                                     "& t=$!; until [ -s address ] || ! kill "
                                     "-0 $t; do sleep 0.05; done; kill -s INT $t; wait $t\n"
                                   : "%.*s\n";
            const char *script = write_temporary(arena, folder, "example.sh", base_print(arena, form, length, at));
            const char *out = run(arena, &status,
                                  base_print(arena, "cd '%s' && PATH='%s':$PATH sh '%s' </dev/null 2>&1", folder,
                                             program_folder, script));
            if (status != BASE_OK && status != BASE_NO_FIT) print_error("exit %d: %.500s\n", status, out);
            assert_true(status == BASE_OK || status == BASE_NO_FIT);
        }
        TEST_ROW("%s has %d examples", all[i]->name, lines);
        assert_true(lines >= 2);
    }
    remove_folder(arena, folder);
}

/* ---- terminals ---- */

static void a_terminal_sees_colour_and_blocks(struct base_arena *arena)
{
    static const struct {
        struct commands_terminal terminal;
        const char *document, *expected;
    } cases[] = {
        {{false, false}, "It fits: 1\n  a  5.0 %  ###\n", "It fits: 1\n  a  5.0 %  ###\n"},
        {{false, true}, "  a  5.0 %  ##\n# no bar\n", "  a  5.0 %  \u2588\u2588\n# no bar\n"},
        {{true, false}, "It does NOT fit: 2\nrest", "\033[1;31mIt does NOT fit: 2\033[0m\nrest"},
        {{true, true}, "  x #\n", "  x \033[36m\u2588\033[0m\n"},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        struct base_text document = {.arena = arena}, out = {.arena = arena};
        TEST_ROW("case %d", i);
        base_put(&document, cases[i].document);
        commands_dress(&document, &cases[i].terminal, &out);
        assert_string_equal(out.data, cases[i].expected);
    }
}

/* ---- man page ---- */

static const char *roff_name(struct base_arena *arena, const char *name)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "\\fB");
    for (; *name; name++) base_putf(&text, *name == '-' ? "\\-" : "%c", *name);
    base_put(&text, "\\fR");
    return text.data;
}

static void man_page_has_every_option_of_every_command(struct base_arena *arena)
{
    int count;
    const struct commands_command *const *all = commands_all(&count);
    const struct commands_command *common = commands_group("@common");
    struct base_text man = {.arena = arena};
    commands_man("1.2.3", &man);
    for (int i = 0; i < count; i++) {
        const char *start = strstr(man.data, base_print(arena, "\n.SS\nmeshwright %s\n", all[i]->name));
        TEST_ROW("%s", all[i]->name);
        assert_non_null(start);
        const char *next = strstr(start + 1, "\n.S");
        const char *section = base_copy_bytes(arena, start, (size_t)(next - start));
        int option_count;
        const struct base_option *options = commands_options(arena, all[i], &option_count);
        for (int j = 0; j < option_count; j++) {
            const struct base_option *option = &options[j];
            bool shared = false;
            for (int k = 0; k < common->option_count; k++)
                shared = shared || !strcmp(common->options[k].name, option->name);
            TEST_ROW("%s %s", all[i]->name, option->name);
            assert_non_null(strstr(shared ? man.data : section, roff_name(arena, option->name)));
        }
        assert_non_null(strstr(section, "\nExamples:\n"));
    }
}

static void man_page_is_clean_roff(struct base_arena *arena)
{
    static const char *const macros[] = {".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi", ".nh", ".ad"};
    struct base_text man = {.arena = arena};
    int status;
    commands_man("1.2.3", &man);
    for (const char *line = man.data; *line; line += strcspn(line, "\n") + 1) {
        bool known = *line != '.' && *line != '\'';
        for (int i = 0; i < BASE_COUNT(macros); i++) known = known || !strncmp(line, macros[i], 3);
        TEST_ROW("%.*s", (int)strcspn(line, "\n"), line);
        assert_true(known);
    }
    for (const char *at = man.data; *at; at++) assert_true((unsigned char)*at < 0x80);
    test_row[0] = '\0';
    if (!has_program(arena, "groff")) return;
    const char *folder = new_folder(arena);
    const char *path = write_temporary(arena, folder, "meshwright.1", man.data);
    assert_string_equal(run(arena, &status, base_print(arena, "groff -man -Tutf8 -ww -z '%s' 2>&1", path)), "");
    assert_int_equal(status, 0);
    remove_folder(arena, folder);
}

/* ---- completion ---- */

/* Asks a real bash: each question is a line of words, the last of which is to be completed; its answer is the words
 * that are offered, sorted, on one line. */
static const char *ask_bash(struct base_arena *arena, const char *questions)
{
    static const char script[] = "source \"$1\"\n"
                                 "while IFS= read -r line; do\n"
                                 "    IFS=' ' read -r -a COMP_WORDS <<<\"$line\"\n"
                                 "    [[ $line != *' ' ]] || COMP_WORDS+=('')\n"
                                 "    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                                 "    COMPREPLY=()\n"
                                 "    _meshwright\n"
                                 "    printf '%s\\n' \"${COMPREPLY[@]}\" | LC_ALL=C sort | tr '\\n' ' '\n"
                                 "    echo\n"
                                 "done <\"$2\"\n";
    struct base_text completion = {.arena = arena};
    int status;
    const char *folder = new_folder(arena);
    commands_bash_completion(&completion);
    const char *answer =
        run(arena, &status,
            base_print(arena, "bash '%s' '%s' '%s' 2>&1", write_temporary(arena, folder, "ask", script),
                       write_temporary(arena, folder, "completion", completion.data),
                       write_temporary(arena, folder, "questions", questions)));
    remove_folder(arena, folder);
    assert_int_equal(status, 0);
    return answer;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void bash_offers_every_option_of_every_command(struct base_arena *arena)
{
    enum { MOST_OPTIONS = 128 };
    int count;
    const struct commands_command *const *all = commands_all(&count);
    struct base_text questions = {.arena = arena}, expected = {.arena = arena};
    for (int i = 0; i < count; i++) {
        const char *names[MOST_OPTIONS];
        int option_count;
        const struct base_option *options = commands_options(arena, all[i], &option_count);
        assert_true(option_count <= MOST_OPTIONS);
        for (int j = 0; j < option_count; j++) names[j] = options[j].name;
        qsort(names, (size_t)option_count, sizeof *names, by_text);
        base_putf(&questions, "meshwright %s --\n", all[i]->name);
        for (int j = 0; j < option_count; j++) base_putf(&expected, "%s ", names[j]);
        base_put(&expected, "\n");
    }
    assert_string_equal(ask_bash(arena, questions.data), expected.data);
}

static void bash_completes_commands_values_and_files(struct base_arena *arena)
{
    static const char *const rows[][2] = {
        {"meshwright pre", "predict "},
        {"meshwright --ver", "--version "},
        {"meshwright nothing --", ""},
        {"meshwright predict --dtype bf", "bfloat16 "},
        {"meshwright predict --dtype = bf", "bfloat16 "},
        {"meshwright predict --attention = ", "flash unfused "},
        {"meshwright predict --dtype float32 --dty", ""},
        {"meshwright predict --dtype float32 --attention ", "flash unfused "},
        {"meshwright predict --topology v4-51", "v4-512 "},
        {"meshwright mesh --topology v5p-204", "v5p-2048 "},
        {"meshwright models --model scalable_t5_1_1_xx", "scalable_t5_1_1_xxl "},
        {"meshwright topology v3-3", "v3-32 "},
        {"meshwright plot rooflin", "roofline "},
        {"meshwright plot roofline tests/test_comm", "tests/test_commands.c "},
        {"meshwright predict tests/test_comm", "tests/test_commands.c "},
        {"meshwright predict --profile tests/test_comm", "tests/test_commands.c "},
        {"meshwright predict --batch-size ", ""},
        {"meshwright rules --fallback raise", "raise_error "},
    };
    struct base_text questions = {.arena = arena}, expected = {.arena = arena};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        base_putf(&questions, "%s\n", rows[i][0]);
        base_putf(&expected, "%s%s\n", rows[i][1], *rows[i][1] ? "" : " ");
    }
    assert_string_equal(ask_bash(arena, questions.data), expected.data);
}

static bool is_accepted(struct base_arena *arena, const char *where, const char *option, const char *word)
{
    const bool decoder = !strcmp(word, "prefill") || !strcmp(option, "--inputs-bidirectional-attention");
    bool infers = false;
    int status;
    for (int key = SIM_DECODE_FN; key <= SIM_PARAMETER_DTYPE; key++)
        infers = infers || !strcmp(option, sim_plan_keys[key].option.name);
    run(arena, &status,
        base_print(arena,
                   "'%s' predict --model %s --ici-mesh data=2,model=2 --batch-size 8 --task-feature-lengths 64,64 "
                   "'%s' '%s' %s %s --json 2>&1",
                   program, decoder ? "decoder_only_base" : "t5_1_1_small", option, word, where,
                   infers                              ? "--step generate"
                   : !strcmp(option, "--moment-dtype") ? "--optimizer adamw"
                                                       : ""));
    return status == BASE_OK || status == BASE_NO_FIT;
}

/* What a metavar lists is what the program takes: with everything else in order, no word of predict's is refused by
 * T5X on a TPU and by all of PyTorch's software on GPUs. */
static void words_that_are_offered_are_accepted(struct base_arena *arena)
{
    static const char *const where[] = {"--topology v5p:2x2x1",
                                        "--topology h100:1x4 --software torchtitan",
                                        "--topology h100:1x4 --software megatron",
                                        "--topology h100:1x4 --software transformers --lora-rank 8",
                                        "--topology h100:1x4 --software deepspeed",
                                        "--topology gb200:1x4 --software megatron --software-version Megatron-Bridge",
                                        "--topology h100:1x4 --software megatron --dtype fp8",
                                        "--topology h100:1x4 --software torchtitan --dtype fp8"};
    /* What goes by how a plan is split: test_plan_keys. */
    static const char by_plan[] = "--scanned --tp-comm-overlap --overlap-param-gather";
    int option_count;
    const struct base_option *options = commands_options(arena, &commands_predict, &option_count);
    for (int i = 0; i < option_count; i++) {
        const struct base_option *option = &options[i];
        for (const char *at = option->value && strchr(option->value, '|') ? option->value : ""; *at; at += *at == '|') {
            int length = (int)strcspn(at, "|");
            const char *word = base_print(arena, "%.*s", length, at);
            at += length;
            if (strpbrk(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) continue;
            if (!strcmp(word, "maxtext")) continue; /* for meshes with its axes: test_model */
            if (!strcmp(word, "dense")) continue;   /* of experts: refused with what is not modelled */
            if (!strcmp(word, "nf4")) continue;     /* of frozen weights: with lora_rank, in test_torch */
            if (strstr(by_plan, option->name)) continue;
            TEST_ROW("%s %s", option->name, word);
            bool accepted = false;
            for (int w = 0; w < BASE_COUNT(where) && !accepted; w++)
                accepted = is_accepted(arena, where[w], option->name, word);
            assert_true(accepted);
        }
    }
}

/* ---- hostile surroundings ---- */

#define PLAN "--model t5_1_1_small --topology v4:2x2x2 --batch-size 8 --task-feature-lengths 64,64"

/* M is the program; the folder has the example table and what is made below. Whatever is refused leaves the folder as
 * it was. */
static const struct hostile {
    const char *command;
    int status;
    const char *says;
} hostile[] = {
    {"$M predict " PLAN " --out missing/x", 3, "missing/x: cannot be written: No such file"},
    {"$M predict " PLAN " --out /dev/full", 3, "/dev/full: cannot be written: No space left"},
    {"$M predict " PLAN " --out folder", 3, "folder: is a directory"},
    {"$M predict " PLAN " --out ''", 3, "--out: the path is empty"},
    {"$M predict " PLAN " --out $(head -c 5000 /dev/zero | tr '\\0' a)", 3, "the path is empty or too long"},
    {"$M predict " PLAN " --trace /dev/full", 3, "/dev/full: cannot be written"},
    {"$M predict " PLAN " --trace missing/t", 3, "missing/t: cannot be written"},
    {"$M predict " PLAN " >/dev/full", 3, "stdout: cannot be written: No space left"},
    {"$M predict " PLAN " >&-", 3, "stdout: cannot be written: Bad file descriptor"},
    {"$M --man >&-", 3, "stdout: cannot be written"},
    {"$M predict " PLAN " --out - >&- && rm ./-", 0, ""},
    {"$M predict " PLAN " >/dev/null 2>&- <&-", 0, ""},
    {"$M predict " PLAN " --seed x 2>&- >&- <&-", 3, ""},
    {"$M batch <&-", 3, "stdin: cannot be read"},
    {"$M batch <folder", 3, "stdin: cannot be read"},
    {"echo '[\"models\"]' | $M batch >/dev/full", 3, "stdout: cannot be written: No space left"},
    {"{ sleep 0.1; $M models; } 2>talk | true; test ! -s talk && rm talk", 0, ""},
    {"$M predict missing.json", 3, "missing.json: cannot be read"},
    {"$M predict folder", 3, "folder: is a directory"},
    {"$M predict /dev/null", 3, "/dev/null: is empty"},
    {"$M predict /dev/zero", 3, "/dev/zero: is larger than"},
    {"$M predict dangling", 3, "dangling: cannot be read"},
    {"$M topology v4-8 --out dangling", 3, "dangling: a link to a missing file"},
    {"printf 'id,model,topology,batch_size,targets_length\\n1,none,v4-8,8,8\\n' >rows.csv\n"
     "$M sweep rows.csv --out y.csv >/dev/null; r=$?; rm -f rows.csv y.csv; exit $r",
     3, "rows.csv: no row could be predicted"},
    {"$M predict --model @ --topology v4-8 --batch-size 8 --task-feature-lengths 64", 3,
     "a file without a name cannot be read"},
    {"$M predict --model @folder --topology v4-8 --batch-size 8 --task-feature-lengths 64", 3,
     "folder: is a directory"},
    {"$M predict --model t5_1_1_small --topology @/dev/zero --batch-size 8 --task-feature-lengths 64", 3,
     "/dev/zero: is larger than"},
    {"$M predict --topology v4-8 --batch-size 8 --task-feature-lengths 64 --model $(head -c 100000 /dev/zero | tr "
     "'\\0' x)",
     3, "model: longer than 1023 bytes"},
    {"$M predict " PLAN " --learning-rate nan", 3, "--learning-rate: \"nan\" is not a number"},
    {"$M predict " PLAN " --learning-rate 1e999", 3, "--learning-rate"},
    {"$M predict " PLAN " --num-partitions 0x2", 3, "--num-partitions: \"0x2\" is not a whole number"},
    {"$M predict " PLAN " --logical-axis-rules $(head -c 5000 /dev/zero | tr '\\0' '[')", 3,
     "nested deeper than 64 levels"},
    {"$M predict " PLAN " --model-parallel-submesh $(seq -s, 1 5000)", 3, "has more than 8 numbers"},
    {"$M predict " PLAN " --profile tiny.json", 3, "constants.hbm_bytes_per_s: a number from"},
    {"echo '{\"constants\":{}}' >p; $M report p; e=$?; rm p; exit $e", 3, "is of a profile, and a plan is needed"},
    {"echo '{\"best\":{}}' >p; $M compare p p; e=$?; rm p; exit $e", 3,
     "is of a search's answer, and a plan is needed"},
    {"echo '{\"constants\":{},\"pases\":{}}' >p; $M predict " PLAN " --profile p; e=$?; rm p; exit $e", 3,
     "pases: is unknown; did you mean passes"},
    {"echo '{\"constants\":{},\"passes\":7}' >p; $M sweep examples/tpu_v4_tuning.csv --profile p --out x; e=$?; rm p; "
     "exit $e",
     3, "passes: an object"},
    {"$M predict " PLAN " --trace t >/dev/null && rm t", 0, ""},
    {"$M predict " PLAN " --profile /dev/null", 3, "/dev/null: is empty"},
    {"$M predict " PLAN " --dtype bfloat", 3, "did you mean bfloat16?"},
    {"$M predict " PLAN " --step trian", 3, "did you mean train?"},
    {"$M predict " PLAN " --json=1", 2, "--json takes no value"},
    {"$M sweep /dev/zero --out x", 3, "line 1: a NUL byte"},
    {"$M sweep examples/tpu_v4_tuning.csv --out missing/x", 3, "missing/x: cannot be written"},
    {"$M sweep examples/tpu_v4_tuning.csv --out /dev/full", 3, "/dev/full: cannot be written"},
    {"$M sweep examples/tpu_v4_tuning.csv >/dev/full", 3, "stdout: cannot be written"},
    {"$M sweep wide.csv --out x", 3, "more than 4096 columns"},
    {"$M sweep long.csv --out x", 3, "longer than 1 MiB"},
    {"$M-lab accuracy comparison folder --out x.svg", 3, "folder: is a directory"},
    {"$M-lab accuracy comparision x --out x.svg", 2, "did you mean comparison?"},
    {"$M plot roofline x --out x.gif", 3, "x.gif"},
    {"$M mesh --topology v4:99999999x1x1 --num-partitions 1", 3, "shape"},
    {"$M mesh --topology v4-512 --num-partitions 99999999999999999999", 3, "out of range"},
    {"$M rules --axes $(seq -s, 1 100)", 3, "more than 64 dimensions"},
    {"$M params --model t5_1_1_small --mesh data=4,data=4", 3, "is a duplicate"},
    {"$M params --model t5_1_1_small --optimizer adaw", 3, "did you mean adamw?"},
    {"$M import missing.gin", 3, "missing.gin: cannot be read"},
    {"$M import /dev/zero --out x", 3, "/dev/zero: is larger than"},
    {"$M import itself.gin --out x", 3, "itself.gin:1: include 'itself.gin': the file includes itself"},
    {"$M import deep.gin --out x", 3, "deep.gin:1: a value of more than 64 levels"},
    {"$M export examples/t5_11b_v4_512.json --format gni --out x", 2, "did you mean gin?"},
    {"$M predict " PLAN " --software-version \"$(printf '1\\nIt fits')\"", 3,
     "--software-version: contains a control character"},
    {"$M tune " PLAN " --software-version \"$(printf '1\\nIt fits')\"", 3,
     "--software-version: contains a control character"},
    {"$M predict --model \"$(printf 't5\\nIt fits')\" --topology v4-8 --batch-size 8 --task-feature-lengths 64,64", 3,
     "--model: contains a control character"},
    {"$M export examples/t5_11b_v4_512.json --format gin --out missing/x", 3, "missing/x: cannot be written"},
    {"$M layout --topology v4-8 --num-partitions 1 --batch-size 7 --out x", 3, "must be divisible"},
    {"$M-lab partition 'a,b->ab' --mesh data=2 --shapes '1073741824;1073741824' --specs 'data;-'", 3,
     "the result has 2.31e+18 bytes; use up to 9.01e+15"},
    {"$M pedict", 2, "did you mean predict?"},
    {"$M --hlep", 2, "did you mean --help?"},
    {"$M --version more", 2, "one argument too many"},
    {"$M topology \"$(printf 'v4\\033[2J')\"", 3, "v4?[2J"}, /* a terminal is not obeyed */
    {"cp examples/tpu_v4_tuning.csv t && $M sweep t --out t >&- ; $M sweep t --out u >/dev/null && cmp t u && rm t u",
     0, ""},
    /* pictures alone load what draws them */
    {"! ldd $M | grep cairo", 0, ""},
    {"touch libcairo.so.2; LD_LIBRARY_PATH=. $M plot memory examples/t5_11b_v4_512.json --out t.svg; r=$?; "
     "rm libcairo.so.2; exit $r",
     1, "libcairo.so.2, which draws pictures, cannot be loaded: "},
    {"echo '{\"constants\": {\"tile_parts\": 65536, \"multiprocessors\": 65536}}' >huge.json; timeout 600 $M predict "
     "--model "
     "t5_1_1_small --task-feature-lengths 64,64 --topology h100:1x8 --batch-size 8 --num-partitions 1 --profile "
     "huge.json; "
     "r=$?; rm huge.json; exit $r",
     0, ""},
    {"$M run examples/tiny_local_4.json --in-process --steps 1 --step evaluate --checkpoint typo", 3,
     "typo: contains no checkpoint to evaluate"},
    {"$M run examples/tiny_local_4.json --in-process --steps 1 --step evaluate --checkpoint folder", 3,
     "folder: contains no checkpoint to evaluate"},
    {"ulimit -f 1; $M sweep examples/tpu_v4_tuning.csv --out x", 3, "x: cannot be written: File too large"},
    {"{ cat header.csv; yes none,v4-8,8,8; } | timeout 0.3 $M sweep /dev/stdin --out x", 124,
     ""}, /* a table without end; the signal comes twice */
};

static const char *new_hostile_folder(struct base_arena *arena)
{
    int status;
    const char *folder = new_folder(arena);
    struct base_text wide = {.arena = arena};
    static const char header[] = "model,topology,batch_size,targets_length";
    base_put(&wide, header);
    for (int i = 0; i < 5000; i++) base_putf(&wide, ",column_%d", i);
    write_temporary(arena, folder, "header.csv", base_print(arena, "%s\n", header));
    write_temporary(arena, folder, "wide.csv", wide.data);
    write_temporary(arena, folder, "long.csv", base_print(arena, "%s\n%*s\n", header, 2 << 20, "x"));
    write_temporary(arena, folder, "itself.gin", "include 'itself.gin'\n");
    write_temporary(arena, folder, "deep.gin",
                    base_print(arena, "A = %s", (char *)memset(base_alloc(arena, 100001, 1), '[', 100000)));
    write_temporary(arena, folder, "tiny.json", "{\"constants\": {\"hbm_bytes_per_s\": 1e-300}}");
    run(arena, &status,
        base_print(arena, "cp -R examples '%s' && mkdir '%s/folder' && ln -s nothing '%s/dangling'", folder, folder,
                   folder));
    assert_int_equal(status, 0);
    return folder;
}

static void hostile_surroundings_end_with_a_message_and_nothing_else(struct base_arena *arena)
{
    int status;
    const char *folder = new_hostile_folder(arena), *list = base_print(arena, "cd '%s' && find . | sort", folder),
               *before = run(arena, &status, list);
    for (int i = 0; i < BASE_COUNT(hostile); i++) {
        TEST_ROW("%s", hostile[i].command);
        const char *script =
            write_temporary(arena, "/tmp", base_print(arena, "meshwright-hostile-%ld.sh", (long)getpid()),
                            base_print(arena, "%s\n", hostile[i].command));
        const char *out = run(arena, &status,
                              base_print(arena, "cd '%s' && M='%s' sh '%s' 2>&1 </dev/null", folder, program, script));
        unlink(script);
        if (status != hostile[i].status) print_error("exit %d: %s\n", status, out);
        assert_int_equal(status, hostile[i].status);
        if (*hostile[i].says && (strncmp(out, "meshwright: ", 12) || !strstr(out, hostile[i].says)))
            print_error("%s\n", out);
        assert_true(!*hostile[i].says || (!strncmp(out, "meshwright: ", 12) && strstr(out, hostile[i].says)));
        assert_string_equal(run(arena, &status, list), before);
    }
    remove_folder(arena, folder);
}

/* ---- memory ---- */

static const char *const question[] = {"--model=t5_1_1_small",         "--topology=v4:2x2x2",  "--batch-size=8",
                                       "--task-feature-lengths=64,64", "--num-microbatches=2", "--json"};

/* predict's document in `batch`'s way: an arena of its own, a cache that stays. NULL: memory ran out. */
static const char *predict_with(struct base_arena *own, struct sim_cache *cache)
{
    static const char *document;
    jmp_buf exhausted;
    document = NULL;
    own->exhausted = &exhausted;
    if (setjmp(exhausted) == 0) {
        struct commands_context context = {.arena = own, .cache = cache};
        struct base_text out = {.arena = own};
        struct base_error error;
        assert_ok(commands_execute(&context, "predict", BASE_COUNT(question), question, &out, &error), &error);
        document = out.data;
    }
    return document;
}

/* Whichever allocation fails, in the question's memory or in the cache's: what is kept stays whole, and the next answer
 * is right. */
static void memory_that_runs_out_anywhere_spoils_no_later_answer(struct base_arena *arena)
{
    struct base_arena own = {0};
    struct sim_cache *cache = sim_cache_new(arena);
    const char *expected = base_copy(arena, predict_with(&own, cache));
    int failures = 0;
    base_arena_reset(&own);
    sim_cache_free(cache);
    for (int in_cache = 0; in_cache < 2; in_cache++) {
        bool failed = true;
        for (int64_t n = 1; failed; n += 1 + n / 16) {
            TEST_ROW("allocation %lld of the %s", (long long)n, in_cache ? "cache" : "question");
            cache = sim_cache_new(arena);
            struct base_arena *victim = in_cache ? &cache->arena : &own;
            victim->fail_after_count = victim->allocation_count + n;
            failed = predict_with(&own, cache) == NULL;
            failures += failed;
            victim->fail_after_count = 0;
            base_arena_reset(&own);
            assert_string_equal(predict_with(&own, cache), expected);
            base_arena_reset(&own);
            sim_cache_free(cache);
        }
    }
    assert_true(failures > 20);
    base_arena_free(&own);
}

/* ---- one question after the other ---- */

static const char *answer_in(struct base_arena *arena, struct sim_cache *cache, const char *command, int count,
                             const char *const *arguments)
{
    struct commands_context context = {.arena = arena, .cache = cache, .json = true};
    struct base_text out = {.arena = arena};
    struct base_error error;
    assert_ok(commands_execute(&context, command, count, arguments, &out, &error), &error);
    return out.data;
}

/* ---- the command of an answer ---- */

/* Words of a shell that are plain, or in single quotes, of which none holds another. */
static int split_command(struct base_arena *arena, const char *command, const char **words, int most)
{
    int count = 0;
    for (const char *at = command; *at && count < most; at += *at == ' ') {
        struct base_text word = {.arena = arena};
        base_put(&word, "");
        for (bool quoted = false; *at && (quoted || *at != ' '); at++)
            if (*at == '\'') quoted = !quoted;
            else base_put_bytes(&word, at, 1);
        words[count++] = word.data;
    }
    return count;
}

/* The answer to the plan's own command is the plan's, and says that command again. */
static void check_asked_again(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan)
{
    enum { MOST_WORDS = 128 };
    const char *command = base_copy(arena, reports_plan_command(arena, plan)), *words[MOST_WORDS];
    struct sim_prediction prediction;
    struct commands_context context = {.arena = arena, .cache = cache, .json = true};
    struct base_text out = {.arena = arena};
    struct base_error error = {0};
    const struct base_json *document;
    assert_ok(sim_predict(cache, plan, &prediction, NULL, &error), &error);
    const int count = split_command(arena, command, words, MOST_WORDS);
    commands_execute(&context, "predict", count - 2, words + 2, &out, &error);
    if (!out.length) fail_msg("%s: %s", command, error.text);
    assert_ok(base_json_parse(arena, out.data, out.length, &document, &error), &error);
    const struct base_json *time = base_json_get(document, "time"), *memory = base_json_get(document, "memory");
    assert_string_equal(base_json_string(document, "command", ""), command);
    assert_near(base_json_number(time, "step_s"), prediction.step_s, 1e-9 * prediction.step_s);
    assert_near(base_json_number(memory, "peak_bytes"), (double)prediction.memory.peak_bytes, 1e-12);
}

/* Plans of every software, from the tables of measured runs. */
static void commands_of_answers_ask_the_same_again(struct base_arena *arena)
{
    static const char *const tables[] = {"alpa_v100",      "aot_maxtext",     "aot_t5x",
                                         "bigscience_pp",  "h100_torchtitan", "h100_transformers",
                                         "megatron_pp",    "megatron_sc21",   "nanotron_h100_pp",
                                         "nemo_selene_pp", "public_gpu",      "torchtitan_pp",
                                         "tpu_levanter",   "tpu_maxtext",     "tpu_mesh_tf",
                                         "tpu_multislice", "vtrain_pp",       "mpt_fsdp",
                                         "mlperf_pp",      "t5x_h100",        "tpu_mesh_transformer_jax"};
    enum { ROWS_A_TABLE = 2 };
    int asked = 0;
    for (int t = 0; t < BASE_COUNT(tables); t++) {
        struct base_csv csv;
        struct base_error error;
        bool more = true;
        struct sim_cache *cache = sim_cache_new(arena);
        assert_ok(base_csv_open(&csv, arena, base_print(arena, "tests/data/measured/%s.csv", tables[t]), &error),
                  &error);
        for (int done = 0; done < ROWS_A_TABLE;) {
            struct sim_plan_text text = {.values = {NULL}};
            struct sim_plan plan;
            assert_ok(base_csv_next(&csv, &more, &error), &error);
            if (!more) break;
            for (int k = 0; k < SIM_KEY_COUNT; k++) {
                const int column = base_csv_column(&csv, sim_plan_keys[k].name);
                if (column >= 0 && *base_csv_field(&csv, column))
                    text.values[k] = base_copy(arena, base_csv_field(&csv, column));
            }
            TEST_ROW("%s line %lld", tables[t], (long long)csv.line_number);
            if (sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) != BASE_OK)
                continue;
            check_asked_again(arena, cache, &plan);
            done++, asked++;
        }
        base_csv_close(&csv);
        sim_cache_free(cache);
    }
    assert_true(asked > 30);
}

/* A file may have changed, and a profile counts for the question that names it. */
static void the_next_question_finds_files_as_they_are_and_no_profile(struct base_arena *arena)
{
    static const char *const topology[] = {"v4-8"};
    const char *folder = new_folder(arena), *model = base_print(arena, "%s/model.json", folder),
               *profile = base_print(arena, "%s/profile.json", folder);
    const char *asked[] = {"--model",        base_print(arena, "@%s", model), "--topology=v4-8",
                           "--batch-size=8", "--task-feature-lengths=16",     "--profile",
                           profile};
    static const char one[] = "{\"architecture\": \"decoder_only\", \"emb_dim\": 64, \"num_heads\": 4, \"head_dim\": "
                              "16, \"mlp_dim\": 128, \"num_layers\": 2, "
                              "\"vocab_size\": 256, \"mlp_activations\": [\"gelu\"], \"logits_via_embedding\": true}";
    struct sim_cache *cache = sim_cache_new(arena);
    char other[sizeof one];
    memcpy(other, one, sizeof one);
    *(strstr(other, ": 2,") + 2) = '3'; /* layers */
    write_temporary(arena, folder, "profile.json", "{\"constants\": {\"hbm_bytes_per_s\": 1e12}}");
    write_temporary(arena, folder, "model.json", one);
    const char *first = answer_in(arena, cache, "predict", BASE_COUNT(asked), asked);
    assert_non_null(sim_cache_overrides(cache));
    write_temporary(arena, folder, "model.json", other);
    assert_string_not_equal(answer_in(arena, cache, "predict", BASE_COUNT(asked), asked), first);
    write_temporary(arena, folder, "model.json", one);
    assert_string_equal(answer_in(arena, cache, "predict", BASE_COUNT(asked), asked), first);
    answer_in(arena, cache, "topology", BASE_COUNT(topology), topology);
    assert_null(sim_cache_overrides(cache));
    sim_cache_free(cache);
    remove_folder(arena, folder);
}

/* ---- installation ---- */

static void install_puts_program_man_page_and_completion_in_place(struct base_arena *arena)
{
    static const char *const installed[] = {"bin/meshwright", "bin/meshwright-rank", "share/man/man1/meshwright.1",
                                            "share/bash-completion/completions/meshwright"};
    const char *folder = new_folder(arena);
    int status;
    run(arena, &status, base_print(arena, "scripts/install.sh '%s' '%s/usr'", program, folder));
    assert_int_equal(status, 0);
    for (int i = 0; i < BASE_COUNT(installed); i++) {
        TEST_ROW("%s", installed[i]);
        assert_int_equal(access(base_print(arena, "%s/usr/%s", folder, installed[i]), R_OK), 0);
    }
    const char *version = run(arena, &status, base_print(arena, "'%s/usr/bin/meshwright' --version", folder));
    assert_memory_equal(version, "meshwright ", 11);
    remove_folder(arena, folder);
}

/* The folder of this test is BUILD/tests, the program BUILD/meshwright. */
static bool find_program(const char *test)
{
    char path[4096];
    snprintf(path, sizeof path, "%.*s../meshwright", (int)(strrchr(test, '/') ? strrchr(test, '/') + 1 - test : 0),
             test);
    if (!realpath(path, program)) return false;
    snprintf(program_folder, sizeof program_folder, "%.*s", (int)(strrchr(program, '/') - program), program);
    return true;
}

int main(int argument_count, char **arguments)
{
    static const struct test tests[] = {
        TEST(every_help_is_complete_and_narrow),
        TEST(messages_hold_no_control_characters),
        TEST(every_option_table_is_well_formed),
        TEST(steps_that_cannot_be_are_refused),
        TEST(every_example_runs),
        TEST(commands_of_answers_ask_the_same_again),
        TEST(a_terminal_sees_colour_and_blocks),
        TEST(man_page_has_every_option_of_every_command),
        TEST(man_page_is_clean_roff),
        TEST(bash_offers_every_option_of_every_command),
        TEST(bash_completes_commands_values_and_files),
        TEST(words_that_are_offered_are_accepted),
        TEST(hostile_surroundings_end_with_a_message_and_nothing_else),
        TEST(memory_that_runs_out_anywhere_spoils_no_later_answer),
        TEST(the_next_question_finds_files_as_they_are_and_no_profile),
        TEST(install_puts_program_man_page_and_completion_in_place),
    };
    if (!find_program(arguments[0])) {
        fprintf(stderr, "the program is not built\n");
        return 1;
    }
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
