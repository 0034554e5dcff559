/* Differences of software versions from software.csv and gpu_constants.csv, by platform. A row of software_versions.csv
 * sets one constant, or adds traits or passes, optionally under an environment variable. It applies to every version
 * that begins with its name, in the table's order. Other versions are as usual. */
#include "sim/compile/compile.h"
#include "sim/plan/plan.h"

#include <string.h>

extern const struct base_table embedded_sim_plan_software_versions_csv;
static const struct base_table *const table = &embedded_sim_plan_software_versions_csv;

static bool is_of(int row, const char *software, const char *platform, const char *version)
{
    const char *begins = base_table_value(table, row, "version");
    return !strcmp(base_table_value(table, row, "software"), software) &&
           !strcmp(base_table_value(table, row, "platform"), platform) && !strncmp(version, begins, strlen(begins));
}

/* Rows of traits: the column `constant` tells whether they apply to all runs, eager ones, or compiled ones. Plans
 * without a version get hints about measured versions: "traits", not "with_traits". */
static model_trait_set *traits_named(const char *name, struct sim_profile *profile)
{
    static const char *const names[] = {"eager_traits", "compiled_traits"};
    for (int i = 0; i < BASE_COUNT(names); i++)
        if (!strcmp(name, names[i])) return &profile->compile.traits[i];
    return !strcmp(name, "traits") || !strcmp(name, "with_traits") ? &profile->traits : NULL;
}

/* "x0.9" scales the value of the chip's and the software's rows. */
static enum base_status take_constant(int row, int constant, struct sim_profile *profile, struct base_error *error)
{
    const char *value = base_table_value(table, row, "value");
    const double scale = *value == 'x' ? profile->constants[constant] : 1;
    if (profile->kinds[constant] && !strcmp(profile->kinds[constant], "given")) return BASE_OK; /* by the user */
    profile->kinds[constant] = base_table_value(table, row, "kind");
    profile->sources[constant] = base_table_value(table, row, "source");
    BASE_TRY(base_parse_double(value + (*value == 'x'), base_table_value(table, row, "constant"), 0, 1e30,
                               &profile->constants[constant], error));
    profile->constants[constant] *= scale;
    return BASE_OK;
}

static const char *const overlap_names[SIM_OVERLAP_COUNT] = {[SIM_OVERLAP_TENSOR] = "tp_comm_overlap",
                                                             [SIM_OVERLAP_GRADIENTS] = "overlap_grad_reduce",
                                                             [SIM_OVERLAP_PARAMETERS] = "overlap_param_gather",
                                                             [SIM_OVERLAP_MESSAGES] = "overlap_p2p_comm"};

/* "drops_out": traits that the software's row has, and this version has not. */
static enum base_status drop_traits(const char *value, struct sim_profile *profile, struct base_error *error)
{
    model_trait_set traits;
    BASE_TRY(sim_trait_set_read(table->name, value, &traits, error));
    profile->traits &= ~traits;
    return BASE_OK;
}

static enum base_status take_row(int row, const char *chip, struct sim_profile *profile, struct base_error *error)
{
    const char *name = base_table_value(table, row, "constant"), *value = base_table_value(table, row, "value");
    model_trait_set *put = traits_named(name, profile);
    if (put) {
        model_trait_set traits;
        BASE_TRY(sim_trait_set_read(table->name, value, &traits, error));
        *put |= traits;
        return BASE_OK;
    }
    if (!strcmp(name, "passes")) {
        sim_pass_set passes;
        BASE_TRY(sim_pass_set_read(table->name, value, &passes, error));
        profile->passes |= passes;
        return BASE_OK;
    }
    if (!strcmp(name, "without_traits")) return drop_traits(value, profile, error);
    if (!strcmp(name, "compile")) {
        profile->compile.is_one = true, profile->compile.runs = *value == '1';
        return BASE_OK;
    }
    if (!strcmp(name, "gradient_dtype")) {
        profile->bfloat16_gradients = !strcmp(value, "bfloat16");
        return BASE_OK;
    }
    if (!strcmp(name, "expert_tensor_parallel")) return BASE_OK; /* a setting: sim_version_setting */
    if (!strcmp(name, "ddp_bucket_size"))
        return base_parse_double(value, name, 1, 1e12, &profile->bucket_parameters, error);
    for (int i = 0; i < SIM_OVERLAP_COUNT; i++)
        if (!strcmp(name, overlap_names[i])) {
            profile->overlaps[i] = *value == '1' ? SIM_SWITCHED_ON : SIM_SWITCHED_OFF;
            return BASE_OK;
        }
    if (!strcmp(name, "attention_library")) return sim_attention_rates_find(value, chip, profile, error);
    const int constant = sim_constant_named(name);
    if (constant < 0) return base_fail(error, BASE_INTERNAL, "software_versions.csv: no constant is %s", name);
    return take_constant(row, constant, profile, error);
}

/* Rows of a library's release, under its own name, for all software that uses it. */
static enum base_status take_library(const char *release, const struct topo_topology *topology,
                                     struct sim_profile *profile, struct base_error *error)
{
    for (int row = 0; row < table->row_count; row++)
        if (is_of(row, "pytorch", sim_platform_name(topology->kind), release))
            BASE_TRY(take_row(row, topology->chip.name, profile, error));
    return BASE_OK;
}

enum base_status sim_profile_take_version(const char *software, const struct topo_topology *topology,
                                          const char *version, struct sim_profile *profile, struct base_error *error)
{
    const char *chip = topology->chip.name;
    for (int row = 0; row < table->row_count; row++)
        if (is_of(row, software, sim_platform_name(topology->kind), version) || is_of(row, software, chip, version)) {
            const char *constant = base_table_value(table, row, "constant");
            if (!strcmp(constant, "checked_rank_s") && topology->bounds[0] == 1) continue; /* of runs over hosts */
            if (!strcmp(constant, "pytorch"))
                BASE_TRY(take_library(base_table_value(table, row, "value"), topology, profile, error));
            else BASE_TRY(take_row(row, topology->chip.name, profile, error));
        }
    return BASE_OK;
}

enum base_status sim_profile_take_compile(const char *software, const char *compile, struct sim_profile *profile,
                                          struct base_error *error)
{
    const bool is_said = compile && *compile;
    if (is_said && !profile->compile.is_one)
        return base_fail(error, BASE_INPUT, "compile: %.60s here leaves no choice of it; leave it out", software);
    if (!profile->compile.is_one) return BASE_OK;
    if (is_said) profile->compile.runs = !strcmp(compile, "1");
    profile->traits |= profile->compile.traits[profile->compile.runs];
    if (!profile->compile.runs) profile->passes |= SIM_PASS_BIT(SIM_PASS_EAGER_KERNELS);
    return BASE_OK;
}

const char *sim_version_environment(struct base_arena *arena, const char *software, const char *version)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "");
    for (int row = 0; row < table->row_count; row++) {
        const char *begins = base_table_value(table, row, "version"),
                   *sets = base_table_value(table, row, "environment");
        const bool is_meant =
            !strcmp(base_table_value(table, row, "software"), software) && !strncmp(version, begins, strlen(begins));
        if (is_meant && *sets && !strstr(text.data, sets)) base_putf(&text, " %s", sets);
    }
    return text.data;
}

int sim_version_names(struct base_arena *arena, const char *software, const char *platform, const char *const **out)
{
    const char **names = base_new(arena, const char *, table->row_count);
    int count = 0, known;
    *out = names;
    for (int row = 0; row < table->row_count; row++) {
        const char *name = base_table_value(table, row, "version");
        if (!*name || !is_of(row, software, platform, name)) continue;
        for (known = 0; known < count && strcmp(names[known], name) != 0;) known++;
        if (known == count) names[count++] = name;
    }
    return count;
}

/* NULL: it has a row. Otherwise those of the software that have one, which may be none. */
static const char *list_known(struct base_arena *arena, const char *software, const char *platform, const char *version)
{
    struct base_text known = {.arena = arena};
    const char *const *names;
    const int count = sim_version_names(arena, software, platform, &names);
    base_put(&known, "");
    for (int i = 0; i < count; i++) {
        if (!strncmp(version, names[i], strlen(names[i]))) return NULL;
        base_putf(&known, "%s'%s'", i ? ", " : "", names[i]);
    }
    return known.data;
}

static const char *software_of(const struct sim_plan_text *text)
{
    return sim_key_is_given(text, SIM_SOFTWARE) ? text->values[SIM_SOFTWARE] : sim_plan_keys[SIM_SOFTWARE].fallback;
}

const char *sim_version_setting(const struct sim_plan_text *text, const char *name)
{
    const char *version = sim_key_is_given(text, SIM_SOFTWARE_VERSION) ? text->values[SIM_SOFTWARE_VERSION] : "";
    const char *value = NULL;
    for (int row = 0; row < table->row_count; row++)
        if (!strcmp(base_table_value(table, row, "constant"), name) &&
            is_of(row, software_of(text), base_table_value(table, row, "platform"), version))
            value = base_table_value(table, row, "value");
    return value;
}

enum base_status sim_version_unsaid(struct base_arena *arena, const struct sim_plan_text *text, const char **out,
                                    struct base_error *error)
{
    struct topo_topology topology;
    *out = NULL;
    if (sim_key_is_given(text, SIM_SOFTWARE_VERSION) || !sim_key_is_given(text, SIM_TOPOLOGY)) return BASE_OK;
    BASE_TRY(topo_parse(arena, text->values[SIM_TOPOLOGY], &topology, error));
    const char *software = software_of(text), *platform = sim_platform_name(topology.kind);
    for (int row = 0; row < table->row_count; row++) /* the newest stands last */
        if (!strcmp(base_table_value(table, row, "constant"), "traits") &&
            is_of(row, software, platform, base_table_value(table, row, "version")))
            *out =
                base_print(arena,
                           "%s%.40s is modelled as of its published runs; use --software-version '%s' for the release "
                           "measured since",
                           sim_key_is_given(text, SIM_SOFTWARE)
                               ? ""
                               : "no software is given (--software torchtitan, transformers, megatron …): ",
                           software, base_table_value(table, row, "version"));
    return BASE_OK;
}

enum base_status sim_version_unknown(struct base_arena *arena, const struct sim_plan_text *text, const char **out,
                                     struct base_error *error)
{
    *out = NULL;
    if (!sim_key_is_given(text, SIM_SOFTWARE_VERSION)) return BASE_OK;
    const char *software = software_of(text), *version = text->values[SIM_SOFTWARE_VERSION];
    struct topo_topology topology;
    if (!sim_key_is_given(text, SIM_TOPOLOGY)) return BASE_OK; /* whoever reads the plan asks for it */
    BASE_TRY(topo_parse(arena, text->values[SIM_TOPOLOGY], &topology, error));
    const char *known = list_known(arena, software, sim_platform_name(topology.kind), version);
    if (known)
        *out = base_print(arena, "software_version '%.80s' is unknown for %.80s (%s); its usual version is predicted",
                          version, software, *known ? base_print(arena, "known: %s", known) : "no version is known");
    return BASE_OK;
}
