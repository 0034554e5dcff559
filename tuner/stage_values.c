/* The values of each key that varies in a space of plans with stages. */
#include "tuner/stages.h"

#include <string.h>

enum { MOST_VALUES = TUNER_STAGED_MOST_VALUES };

static const enum tuner_dimension dimensions[TUNER_STAGED_COUNT] = {
    TUNER_BATCH,    TUNER_OPTIMIZER, TUNER_DTYPE,      TUNER_ATTENTION,    TUNER_RULES,    TUNER_DIVISION,
    TUNER_SCHEDULE, TUNER_EXCHANGE,  TUNER_REMAT,      TUNER_PARTITIONING, TUNER_SEQUENCE, TUNER_EXPERT_TENSOR,
    TUNER_CONTEXT,  TUNER_EXPERTS,   TUNER_PARTITIONS, TUNER_STAGES,       TUNER_CHUNKS,   TUNER_MICROBATCHES};

/* Defaults, but for options of the software (software_choices.csv); none: divisors, or the plan's own value. */
static const char *const defaults[TUNER_DIMENSION_COUNT] = {[TUNER_REMAT] = "none selective full",
                                                            [TUNER_PARTITIONING] = "none data",
                                                            [TUNER_SEQUENCE] = "0 1",
                                                            [TUNER_CONTEXT] = "1"};

enum tuner_dimension tuner_staged_dimension(int place)
{
    return dimensions[place];
}

static void add(struct tuner_stages *w, enum tuner_dimension d, const char *text)
{
    struct tuner_values *values = &w->values[d];
    if (values->count < MOST_VALUES) values->values[values->count++] = text;
    else w->overflows = true;
}

/* Divisors from 1 to most. */
static void add_divisors(struct tuner_stages *w, enum tuner_dimension d, int64_t of, int64_t most)
{
    for (int64_t n = 1; n <= of && n <= most; n++)
        if (of % n == 0) add(w, d, base_print(w->arena, "%lld", (long long)n));
}

bool tuner_staged_has_schedule(const struct tuner_stages *w, int schedule)
{
    bool has = false;
    for (int i = 0; i < w->values[TUNER_SCHEDULE].count; i++) has = has || w->numbers[TUNER_SCHEDULE][i] == schedule;
    return has;
}

/* Chunks have at least one layer. If the layers do not divide, the software may still accept them. */
static void add_chunks(struct tuner_stages *w)
{
    const int64_t layers = w->config.num_decoder_layers;
    const bool asked = tuner_staged_has_schedule(w, TUNER_STAGED_BY_CHUNKS) ||
                       tuner_staged_has_schedule(w, SIM_INTERLEAVED),
               interleaves = asked && w->traits.schedules & 1u << SIM_INTERLEAVED;
    const int64_t most = !interleaves || w->config.encoder ? 1 : layers < SIM_MOST_CHUNKS ? layers : SIM_MOST_CHUNKS;
    for (int64_t n = 1; n <= most; n++) add(w, TUNER_CHUNKS, base_print(w->arena, "%lld", (long long)n));
}

/* Divisors of any batch. */
static void add_microbatches(struct tuner_stages *w)
{
    const struct tuner_values *batches = &w->values[TUNER_BATCH];
    for (int64_t n = 1, most = 0; n == 1 || n <= most; n++) {
        bool divides = false;
        for (int b = 0; b < batches->count; b++) {
            const int64_t batch = w->numbers[TUNER_BATCH][b];
            divides = divides || batch % n == 0;
            most = batch > most ? batch : most;
        }
        if (divides) add(w, TUNER_MICROBATCHES, base_print(w->arena, "%lld", (long long)n));
    }
}

/* Devices that share out the experts; of those that share one expert, the software's own number comes first. */
static void add_experts(struct tuner_stages *w, enum tuner_dimension d)
{
    const int64_t experts = w->config.experts.count;
    if (!experts || !w->choices.searches_experts) return;
    if (d == TUNER_EXPERTS) {
        add_divisors(w, d, experts, w->topology.device_count);
    } else if (d == TUNER_EXPERT_TENSOR) {
        add(w, d, NULL);
        for (int i = 0; i < w->choices.expert_tensor_parallel.count; i++)
            add(w, d, w->choices.expert_tensor_parallel.values[i]);
    }
}

/* The software's options, or the defaults of the table. */
static void add_usual(struct tuner_stages *w, enum tuner_dimension d)
{
    const struct tuner_values *own = d == TUNER_RULES ? &w->choices.rules : &w->choices.words[d];
    const bool tells = !w->choices.is_t5x && own->count > 0;
    const struct tuner_values usual = tells ? *own : tuner_split_words(w->arena, defaults[d] ? defaults[d] : "");
    for (int i = 0; i < usual.count; i++) add(w, d, usual.values[i]);
}

static bool is_number(enum tuner_dimension d)
{
    return d == TUNER_BATCH || d == TUNER_MICROBATCHES || d >= TUNER_EXPERT_TENSOR;
}

/* Keys whose words decide which plans exist. */
static bool is_word(enum tuner_dimension d)
{
    return d == TUNER_DIVISION || d == TUNER_SCHEDULE || d == TUNER_EXCHANGE;
}

static const char *words_of(struct base_arena *arena, const struct sim_plan_key *key)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < SIM_MOST_WORDS && key->words[i].name; i++)
        base_putf(&text, "%s%s", i ? ", " : "", key->words[i].name);
    return text.data;
}

/* Reads a word of the plan's key; by default by layers, and by chunks. */
static enum base_status read_words(struct tuner_stages *w, enum tuner_dimension d, struct base_error *error)
{
    const struct tuner_values *values = &w->values[d];
    const struct sim_plan_key *key = &sim_plan_keys[tuner_key(d)];
    for (int i = 0; i < values->count; i++) {
        int at = 0;
        w->numbers[d][i] = d == TUNER_SCHEDULE ? TUNER_STAGED_BY_CHUNKS : 0;
        if (!values->values[i]) continue;
        while (at < SIM_MOST_WORDS && key->words[at].name && strcmp(key->words[at].name, values->values[i]) != 0) at++;
        if (at == SIM_MOST_WORDS || !key->words[at].name)
            return base_fail(error, BASE_INPUT, "%s: \"%.60s\" is unknown; use some of %s, with commas between",
                             key->name, values->values[i], words_of(w->arena, key));
        w->numbers[d][i] = key->words[at].value;
    }
    return BASE_OK;
}

static int64_t most_of(enum tuner_dimension d)
{
    return d == TUNER_STAGES ? SIM_MOST_STAGES : d == TUNER_CHUNKS ? SIM_MOST_CHUNKS : INT32_MAX;
}

static enum base_status read_numbers(struct tuner_stages *w, enum tuner_dimension d, struct base_error *error)
{
    const struct tuner_values *values = &w->values[d];
    const struct sim_plan_key *key = &sim_plan_keys[tuner_key(d)];
    for (int i = 0; i < values->count && is_number(d); i++) {
        w->numbers[d][i] = 1;
        if (!values->values[i]) continue;
        const bool is_off = d == TUNER_MICROBATCHES; /* at 0 */
        if (!strcmp(values->values[i], "auto"))
            return base_fail(error, BASE_INPUT, "%s: auto cannot be combined with numbers; use auto, or numbers alone",
                             key->name);
        BASE_TRY(base_parse_int(values->values[i], key->name, !is_off, most_of(d), &w->numbers[d][i], error));
        if (w->numbers[d][i] < 1) w->numbers[d][i] = 1;
    }
    return BASE_OK;
}

enum base_status tuner_staged_find_values(struct tuner_stages *w, int place, struct base_error *error)
{
    const enum tuner_dimension d = dimensions[place];
    struct tuner_values *values = &w->values[d];
    const struct tuner_values *given = &w->request.given[d];
    const int node = w->topology.bounds[1], devices = w->topology.device_count;
    *values = (struct tuner_values){base_new(w->arena, const char *, MOST_VALUES), 0};
    if (given->count > MOST_VALUES)
        return base_fail(error, BASE_INPUT, "%s: has more than %d values", sim_plan_keys[tuner_key(d)].name,
                         MOST_VALUES);
    for (int i = 0; i < given->count; i++) add(w, d, given->values[i]);
    if (!given->count && is_word(d) && sim_key_is_given(&w->request.plan, tuner_key(d)))
        add(w, d, w->request.plan.values[tuner_key(d)]);
    const bool batches = d == TUNER_BATCH && w->request.batch_auto;
    const struct tuner_values sizes =
        batches ? tuner_auto_batches(w->arena, MODEL_STEP_TRAIN, devices) : (struct tuner_values){NULL, 0};
    for (int i = 0; i < sizes.count; i++) add(w, d, sizes.values[i]);
    if (d == TUNER_CONTEXT && w->request.searches_context) add_divisors(w, d, devices, devices);
    else if (!values->count) add_usual(w, d);
    if (!values->count && !sim_key_is_given(&w->request.plan, SIM_NUM_EXPERT_PARTITIONS)) add_experts(w, d);
    if (!values->count && d == TUNER_PARTITIONS) add_divisors(w, d, devices, node);
    if (!values->count && d == TUNER_STAGES) add_divisors(w, d, devices, SIM_MOST_STAGES);
    if (!values->count && d == TUNER_CHUNKS) add_chunks(w);
    if (!values->count && d == TUNER_MICROBATCHES) add_microbatches(w);
    if (!values->count) add(w, d, NULL);
    if (w->overflows)
        return base_fail(error, BASE_INPUT, "%s: more than %d values are possible; list those to search",
                         sim_plan_keys[tuner_key(d)].name, MOST_VALUES);
    return is_word(d) ? read_words(w, d, error) : read_numbers(w, d, error);
}
