/* Files of other training software: detects their kind, and merges their settings. */
#include "model/import/import_draft.h"
#include "model/import/import_marks.csv.h"
#include "topo/topo.h"

#include <string.h>

const char *const model_import_kinds[MODEL_IMPORT_KINDS] = {
    "maxtext",    "megatron",     "nemo",    "torchtitan", "nanotron", "deepspeed", "transformers",
    "accelerate", "llamafactory", "axolotl", "fsdp",       "levanter", "easylm",    "axlearn"};

static bool is_kind(const char *kind, const char *name)
{
    return !strcmp(kind, name);
}

/* Two names found only in files of a kind, at the start of a line or a name; the first kind with both wins. */
static const struct {
    const char *software, *a, *b;
} marks[] = {IMPORT_MARKS_ROWS};

static const char *recognised(const char *text)
{
    for (int i = 0; i < BASE_COUNT(marks); i++)
        if (strstr(text, marks[i].a) && strstr(text, marks[i].b)) return marks[i].software;
    return NULL;
}

bool model_import_recognises(struct base_arena *arena, const char *path)
{
    const char *text;
    size_t length;
    struct base_error ignored;
    if (model_gin_is_gin(path) || !base_is_file(path)) return false;
    if (base_read_file(arena, path, IMPORT_LARGEST_BYTES, &text, &length, &ignored) != BASE_OK) return false;
    if (base_ends_in(path, ".json") && (strstr(text, "\"topology\"") || strstr(text, "\"logical_axis_rules\"")))
        return false;
    return strlen(text) == length && (recognised(text) || base_ends_in(path, ".toml"));
}

/* ---- command lines ---- */

/* An argument that is a command line itself: of xpk, srun bash -c and the like. */
static bool is_command_line(const char *word)
{
    return strchr(word, ' ') && (strstr(word, ".py ") || strstr(word, ".train ") || strstr(word, "_train ")) &&
           (strstr(word, " --") || strchr(word, '='));
}

/* --name value, --name=value, --flag; a name's later words are joined by "+". key=value is MaxText's. */
static enum base_status take_arguments(struct import_draft *draft, const char *kind, const char *file,
                                       const struct import_words *words)
{
    struct base_arena *arena = draft->arena;
    const bool pairs = is_kind(kind, "maxtext") || is_kind(kind, "nemo"); /* key=value */
    for (int i = 1; i < words->count; i++) {
        const char *word = words->items[i].text, *equals = strchr(word, '=');
        const struct model_gin_place place = {file, words->items[i].line};
        if (is_kind(kind, "maxtext") &&
            (base_ends_in(word, "benchmark_runner.py") || base_ends_in(word, "benchmark_runner")))
            return base_fail(draft->error, BASE_INPUT,
                             "%.300s:%d: benchmark_runner takes its settings from Python; give the command line of "
                             "MaxText.train that it starts",
                             file, words->items[i].line);
        if (is_kind(kind, "nemo") && base_ends_in(word, ".py") && strstr(word, "recipe"))
            model_import_put_from(draft, ".recipe", word, place);
        if (is_kind(kind, "maxtext") && !equals && *word != '-' &&
            (base_ends_in(word, ".yml") || base_ends_in(word, ".yaml")) && !base_ends_in(word, "base.yml"))
            draft->base_file = word;
        if (is_command_line(word) || (*word != '-' && (!equals || !pairs))) continue;
        const char *start = word + strspn(word, pairs ? "-+" : "-");
        const size_t length = equals ? (size_t)(equals - start) : strlen(start);
        struct base_text value = {.arena = arena};
        if (equals) base_put(&value, equals + 1);
        while (!equals && i + 1 < words->count &&
               (words->items[i + 1].text[0] != '-' ||
                strspn(words->items[i + 1].text, "-.0123456789e") == strlen(words->items[i + 1].text))) {
            if (base_ends_in(words->items[i + 1].text, ".py")) break;
            if (pairs && strchr(words->items[i + 1].text, '=')) break;
            base_putf(&value, "%s%s", value.length ? "+" : "", words->items[++i].text);
        }
        if (*start && length < 200)
            BASE_TRY(model_import_set(&draft->settings, model_import_name(arena, start, length),
                                      value.data ? value.data : "true", kind, place, draft->error));
    }
    return BASE_OK;
}

static enum base_status read_script(struct import_draft *draft, const char *kind, const char *path, const char *text,
                                    int line, int depth);

static enum base_status read_words(struct import_draft *draft, const char *kind, const char *path,
                                   const struct import_words *words, int depth)
{
    enum { DEEPEST = 2 };
    for (int i = 1; i < words->count && depth < DEEPEST; i++)
        if (is_command_line(words->items[i].text))
            BASE_TRY(read_script(draft, kind, path, words->items[i].text, words->items[i].line, depth + 1));
    return BASE_OK;
}

/* Behind blanks and comments. */
static const char *first_line(const char *text)
{
    text += strspn(text, " \t\n");
    while (*text == '#') text += strcspn(text, "\n"), text += strspn(text, " \t\n");
    return text;
}

/* A file that the script writes: settings of the software in its own form. Scripts are read where they are called. */
static enum base_status read_document(struct import_draft *draft, const char *path, const struct import_body *body)
{
    struct base_text text = {.arena = draft->arena};
    const char *start = first_line(body->text), *own = recognised(body->text);
    if (!own) return BASE_OK;
    if (!strncmp(start, "--", 2) || start[strcspn(start, "= \n")] == '=')
        return read_script(draft, own, path, body->text, body->line, 1);
    for (int i = 1; i < body->line; i++) base_put(&text, "\n"); /* lines are those of the script */
    base_put(&text, body->text);
    if (*start == '[') {
        draft->has_toml = true;
        return model_import_toml(&draft->settings, own, path, text.data, text.length, draft->error);
    }
    if (*start != '{' && start[strcspn(start, ": \n")] != ':') return BASE_OK;
    return model_import_yaml(&draft->settings, own, path, text.data, text.length, draft->error);
}

/* A file of arguments alone is no script: Et|(tt|)*4L in it is a word. */
static const char *escaped(struct base_arena *arena, const char *text)
{
    struct base_text out = {.arena = arena};
    const char *start = first_line(text);
    if (strncmp(start, "--", 2) != 0 || !strpbrk(text, "|()")) return text;
    char quote = 0; /* inside "" or '' they are no special characters */
    for (const char *at = text; *at; at++) {
        const bool before = at == text || strchr(" \t\n", at[-1]), after = !at[1] || strchr(" \t\n", at[1]);
        if (!quote && *at == '#' && before) { /* a comment, whose apostrophe is no quote */
            const size_t length = strcspn(at, "\n");
            base_put_bytes(&out, at, length);
            at += length - 1;
            continue;
        }
        if (strchr("\"'", *at) && (!quote || quote == *at)) quote = quote ? 0 : *at;
        if (!quote && strchr("|()", *at) && !(before && after)) base_put(&out, "\\");
        base_put_bytes(&out, at, 1);
    }
    return out.data;
}

/* The commands of a script that say anything; others (mkdir, echo) have no such options. */
static enum base_status read_script(struct import_draft *draft, const char *kind, const char *path, const char *text,
                                    int line, int depth)
{
    struct import_shell *shell = &draft->shell; /* its variables are those of the files before, too */
    const int first = shell->command_count;
    shell->arena = draft->arena, shell->file = path, shell->error = draft->error;
    BASE_TRY(model_import_shell(shell, escaped(draft->arena, text), line));
    const int first_body = draft->body_count;
    draft->body_count = shell->body_count;
    for (int b = first_body, end = shell->body_count; b < end; b++)
        if (shell->bodies[b].is_document) BASE_TRY(read_document(draft, path, &shell->bodies[b]));
    for (int c = first, end = shell->command_count; c < end; c++) {
        const struct import_words *command = &shell->commands[c];
        const char *name = strrchr(command->items[0].text, '/');
        struct import_words whole = *command, shifted = {0};
        name = name ? name + 1 : command->items[0].text;
        if (base_lists("echo mkdir set cd printf cat source pip rm cp", name, strlen(name))) continue;
        if (*command->items[0].text == '-' || strchr(command->items[0].text, '=')) { /* a file of arguments alone */
            BASE_TRY(model_import_shell_add(shell, &shifted, "", 0, 1));
            for (int i = 0; i < command->count; i++)
                BASE_TRY(model_import_shell_add(shell, &shifted, command->items[i].text, strlen(command->items[i].text),
                                                command->items[i].line));
            whole = shifted;
        }
        BASE_TRY(take_arguments(draft, kind, path, &whole));
        BASE_TRY(read_words(draft, kind, path, &whole, depth));
    }
    return BASE_OK;
}

/* The environment of a container, as a list of names and values. */
static enum base_status take_environment(struct import_draft *draft, int first)
{
    static const char ending[] = ".name";
    for (int i = first; i < draft->settings.count; i++) {
        const struct import_setting *setting = &draft->settings.items[i];
        const char *inside = strstr(setting->name, ".env.");
        if (!inside || !base_ends_in(setting->name, ending)) continue;
        const int length = (int)(strlen(setting->name) - strlen(ending));
        const struct import_setting *value =
            model_import_find(&draft->settings, base_print(draft->arena, "%.*s.value", length, setting->name));
        if (value) BASE_TRY(model_import_shell_set(&draft->shell, setting->value, value->value, value->place.line));
    }
    return BASE_OK;
}

/* Commands in a manifest of Kubernetes and the like: a text, or a list of words. */
static enum base_status take_commands(struct import_draft *draft, const char *kind, const char *path, int first)
{
    draft->shell.error = draft->error;
    BASE_TRY(take_environment(draft, first));
    for (int i = first, end = draft->settings.count; i < end; i++) {
        const struct import_setting setting = draft->settings.items[i];
        const struct base_json *list = NULL;
        struct import_words words = {0};
        struct base_error ignored;
        if (is_command_line(setting.value))
            BASE_TRY(read_script(draft, kind, path, setting.value, setting.place.line, 0));
        if (*setting.value != '[' ||
            base_json_parse(draft->arena, setting.value, strlen(setting.value), &list, &ignored) != BASE_OK)
            continue;
        for (const struct base_json *word = list->child; word; word = word->next) {
            if (word->kind != BASE_JSON_STRING) continue;
            BASE_TRY(
                model_import_shell_add(&draft->shell, &words, word->string, strlen(word->string), setting.place.line));
            if (is_command_line(word->string))
                BASE_TRY(read_script(draft, kind, path, word->string, setting.place.line, 0));
        }
        bool starts = false;
        for (int w = 0; w < words.count; w++) starts = starts || base_ends_in(words.items[w].text, ".py");
        if (starts) BASE_TRY(take_arguments(draft, kind, path, &words));
    }
    return BASE_OK;
}

/* A script whose own commands say nothing: its functions and the scripts that it writes, which others call. */
static enum base_status read_bodies(struct import_draft *draft, const char *kind, const char *path)
{
    for (int b = 0, end = draft->shell.body_count; b < end; b++) {
        const struct import_body body = draft->shell.bodies[b];
        BASE_TRY(read_script(draft, kind, path, body.text, body.line, 1));
    }
    return BASE_OK;
}

/* Slurm's directives say how many processes srun starts, where no launcher in the script does. */
static enum base_status take_processes(struct import_draft *draft, const char *kind, const char *path)
{
    static const char *const rows[][3] = {{"nnodes", "SLURM_NNODES", NULL},
                                          {"nproc_per_node", "SLURM_GPUS_PER_NODE", "SLURM_NTASKS_PER_NODE"}};
    if (is_kind(kind, "maxtext") || model_import_find(&draft->settings, "nproc_per_node")) return BASE_OK;
    for (int i = 0; i < BASE_COUNT(rows); i++)
        for (int v = 1; v < 3 && rows[i][v]; v++) {
            const struct import_words *words = model_import_variable(&draft->shell, rows[i][v]);
            if (!words || !words->count || model_import_find(&draft->settings, rows[i][0])) continue;
            BASE_TRY(model_import_set(&draft->settings, rows[i][0], words->items[0].text, kind,
                                      (struct model_gin_place){path, words->items[0].line}, draft->error));
        }
    return BASE_OK;
}

/* ---- files ---- */

static enum base_status read_one(struct import_draft *draft, const char *path, const char *from)
{
    const char *text;
    size_t length;
    BASE_TRY(base_read_file(draft->arena, path, IMPORT_LARGEST_BYTES, &text, &length, draft->error));
    const char *kind = from ? from : recognised(text);
    if (!kind && base_ends_in(path, ".toml")) kind = "torchtitan";
    if (!kind) kind = draft->kind; /* of the files before it */
    if (strlen(text) != length)
        return base_fail(draft->error, BASE_INPUT, "%.300s: contains a NUL byte and is no text", path);
    if (!kind)
        return base_fail(draft->error, BASE_INPUT,
                         "%.300s: cannot tell the software; use --from maxtext, megatron, torchtitan, nanotron, "
                         "deepspeed, transformers, accelerate, axolotl, llamafactory, fsdp, nemo, levanter, easylm, "
                         "axlearn or gin",
                         path);
    if (!draft->kind || is_kind(draft->kind, "accelerate") ||
        (is_kind(draft->kind, "transformers") && is_kind(kind, "deepspeed")))
        draft->kind = kind;
    const bool script = !strncmp(text, "#!", 2) || strstr(text, "<<"),
               toml = base_ends_in(path, ".toml") ||
                      (!script && is_kind(kind, "torchtitan") && (*text == '[' || strstr(text, "\n["))),
               yaml = base_ends_in(path, ".yml") || base_ends_in(path, ".yaml") || base_ends_in(path, ".json");
    draft->has_yaml = draft->has_yaml || yaml;
    draft->has_toml = draft->has_toml || toml;
    if (toml) return model_import_toml(&draft->settings, kind, path, text, length, draft->error);
    const struct base_json *document;
    if (base_ends_in(path, ".json") && base_json_parse(draft->arena, text, length, &document, draft->error) != BASE_OK)
        return base_fail_in(draft->error, "%.300s", path);
    if (yaml) {
        const int first = draft->settings.count;
        BASE_TRY(model_import_yaml(&draft->settings, kind, path, text, length, draft->error));
        return take_commands(draft, kind, path, first);
    }
    if (is_kind(kind, "axlearn")) return model_import_printed(&draft->settings, kind, path, text, length, draft->error);
    if (strstr(text, "--") || strchr(text, '=')) {
        BASE_TRY(read_script(draft, kind, path, text, 1, 0));
        if (!model_import_says_plan(&draft->settings)) BASE_TRY(read_bodies(draft, kind, path));
        return take_processes(draft, kind, path);
    }
    return model_import_yaml(&draft->settings, kind, path, text, length, draft->error);
}

/* TPU arguments of xpk and Cluster Toolkit: --device-type tpu7x-4x4x4 --num-slices 2, --topology 4x4x4. */
static void take_machine(struct import_draft *draft)
{
    const char *type = model_import_said(draft, ".device_type", NULL),
               *shape = model_import_said(draft, ".shape", NULL),
               *slices = model_import_said(draft, ".num_slices", NULL), *dash = type ? strrchr(type, '-') : NULL;
    const char *compiled = model_import_said(draft, "topology", NULL); /* of train_compile */
    if (compiled && slices && !strchr(compiled, '@'))
        model_import_put(draft, "topology", base_print(draft->arena, "%s@slices=%s", compiled, slices));
    if (!type) return;
    if (dash && strchr(dash, 'x')) type = base_print(draft->arena, "%.*s:%s", (int)(dash - type), type, dash + 1);
    else if (shape && !dash) type = base_print(draft->arena, "%s:%s", type, shape);
    if (slices) type = base_print(draft->arena, "%s@slices=%s", type, slices);
    if (!model_import_slot(draft, "topology"))
        model_import_put_from(draft, "topology", type, model_import_slot(draft, ".device_type")->place);
}

static enum base_status find_devices(struct import_draft *draft)
{
    struct topo_topology topology;
    take_machine(draft);
    const char *compiled = model_import_said(draft, "topology", NULL);
    if (draft->topology)
        model_import_put_from(draft, "topology", draft->topology, (struct model_gin_place){"the command line", 0});
    const char *text = draft->topology ? draft->topology : compiled;
    if (!text || strchr(text, ';')) return BASE_OK;
    BASE_TRY(topo_parse(draft->arena, text, &topology, draft->error));
    draft->device_count = topology.device_count;
    draft->is_gpu = topology.kind == TOPO_GPU;
    draft->slice_count = draft->is_gpu ? topology.bounds[0] : topology.slice_count;
    return BASE_OK;
}

/* Levanter's checkpoint of Hugging Face is the model where the file says no sizes. */
static void name_model(struct import_draft *draft)
{
    const char *name = model_import_said(draft, ".hf", NULL);
    bool sizes = false;
    for (int i = 0; i < draft->slot_count; i++) sizes = sizes || !strncmp(draft->slots[i].name, "model.", 6);
    if (!name || sizes) return;
    model_import_put(draft, "model", base_copy_bytes(draft->arena, name, strcspn(name, "@")));
    model_import_put(draft, ".family", "");
}

/* What the script exports to PyTorch's allocator, under its name of today and that before version 2.9. */
static void take_allocator(struct import_draft *draft)
{
    static const char *const names[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
    for (int i = 0; i < BASE_COUNT(names); i++) {
        const struct import_words *said = model_import_variable(&draft->shell, names[i]);
        if (said && said->count && strstr(said->items[0].text, "expandable_segments:True"))
            model_import_put(draft, "expandable_segments", "1");
    }
}

/* accelerate reads fsdp_config where it starts FSDP, and not elsewhere. */
static void drop_unread(struct import_draft *draft)
{
    const char *type = model_import_said(draft, ".distributed", "FSDP");
    for (int i = 0; i < draft->slot_count && strcmp(type, "FSDP") != 0; i++)
        if (!strncmp(draft->slots[i].from, "fsdp_config.", 12)) draft->slots[i].value = "";
}

/* Files that say how parameters are sharded. */
static void warn_of_unread(struct import_draft *draft)
{
    static const char unread[] = "%.200s is not read: give it as a file, too, for its %s";
    const struct import_slot *own = model_import_slot(draft, ".zero_file"),
                             *zero = own ? own : model_import_slot(draft, ".deepspeed"),
                             *launcher = model_import_slot(draft, ".launcher_file");
    if (zero && base_ends_in(zero->value, ".json"))
        model_import_warn(draft, zero->place, unread, zero->value, "ZeRO stage");
    if (launcher) model_import_warn(draft, launcher->place, unread, launcher->value, "sharding");
}

static enum base_status finish(struct import_draft *draft)
{
    const bool megatron = is_kind(draft->kind, "megatron") || is_kind(draft->kind, "nemo");
    const bool hugging = base_lists("accelerate llamafactory axolotl transformers", draft->kind, strlen(draft->kind)),
               titan = is_kind(draft->kind, "torchtitan");
    BASE_TRY(find_devices(draft));
    drop_unread(draft);
    if (is_kind(draft->kind, "nemo")) model_import_bridge(draft);
    const struct import_slot *file = model_import_slot(draft, ".config_file");
    const char *lacks = draft->base_file && !draft->has_yaml ? draft->base_file
                        : file && !draft->has_toml           ? file->value
                                                             : NULL;
    if (lacks)
        return base_fail(draft->error, BASE_INPUT,
                         "%.200s has settings that the command line lacks; give it, too, before the script", lacks);
    const bool easylm = is_kind(draft->kind, "easylm"), axlearn = is_kind(draft->kind, "axlearn");
    if (easylm) BASE_TRY(model_import_easylm(draft));
    if (axlearn) BASE_TRY(model_import_axlearn(draft));
    if (easylm || axlearn || is_kind(draft->kind, "maxtext")) BASE_TRY(model_import_maxtext(draft));
    else {
        if (megatron) BASE_TRY(model_import_megatron(draft));
        name_model(draft);
        model_import_defaults(draft);
        model_import_torch(draft);
        BASE_TRY(model_import_layout(draft));
        if (titan) {
            BASE_TRY(model_import_stage_batches(draft));
            if (model_import_slot(draft, "num_partitions")) model_import_default(draft, "sequence_parallel", "1");
        }
        BASE_TRY(model_import_shards(draft));
    }
    if (!model_import_slot(draft, ".zero")) warn_of_unread(draft);
    const bool deep = is_kind(draft->kind, "deepspeed") || model_import_slot(draft, ".deepspeed");
    model_import_put(draft, "software",
                     model_import_slot(draft, ".core") || model_import_slot(draft, ".bridge") ? "megatron"
                     : deep    ? (megatron ? "megatron_deepspeed" : "deepspeed")
                     : hugging ? "transformers"
                     : easylm  ? "maxtext"
                               : draft->kind);
    if (titan || (hugging && !deep && !model_import_slot(draft, ".core"))) take_allocator(draft);
    BASE_TRY(model_import_model(draft));
    return titan ? model_import_chunks(draft) : BASE_OK;
}

/* NAME=VALUE is a variable of scripts, too. */
static enum base_status set_environment(struct import_draft *draft, const char *text)
{
    const size_t length = strcspn(text, "=");
    draft->shell.error = draft->error;
    if (!text[length] || *text == '-') return BASE_OK;
    return model_import_shell_set(&draft->shell, base_copy_bytes(draft->arena, text, length), text + length + 1, 0);
}

static void put_values(const struct import_draft *draft, struct model_import *out)
{
    struct model_imported *values = base_new(draft->arena, struct model_imported, IMPORT_MOST_SLOTS);
    int count = 0;
    for (int i = 0; i < draft->slot_count; i++) {
        const struct import_slot *slot = &draft->slots[i];
        if (!strchr(slot->name, '.') && *slot->value)
            values[count++] = (struct model_imported){slot->name, slot->value, slot->place};
    }
    out->values = values, out->value_count = count;
}

enum base_status model_import_read(struct base_arena *arena, const struct model_import_request *request,
                                   struct model_import *out, struct base_error *error)
{
    struct import_draft *draft = base_new(arena, struct import_draft, 1);
    draft->arena = draft->settings.arena = arena;
    draft->error = error;
    draft->topology = request->topology;
    draft->shell.arena = arena;
    for (int i = 0; i < request->override_count; i++) BASE_TRY(set_environment(draft, request->overrides[i]));
    for (int i = 0; i < request->path_count; i++) BASE_TRY(read_one(draft, request->paths[i], request->from));
    for (int i = 0; i < request->override_count; i++)
        BASE_TRY(model_import_override(&draft->settings, request->overrides[i], draft->kind, error));
    model_import_interpolate(&draft->settings);
    BASE_TRY(model_import_take(draft));
    BASE_TRY(finish(draft));
    *out = (struct model_import){.kind = draft->kind,
                                 .notes = draft->notes,
                                 .note_count = draft->note_count,
                                 .warnings = draft->warnings,
                                 .warning_count = draft->warning_count};
    put_values(draft, out);
    return BASE_OK;
}
