/* Profiles: the chip's row of the catalogue, then the platform's constants (constants.csv), then the user's. The
 * software's row lists the compiler passes. */
#include "sim/machine/constants.csv.h"
#include "sim/machine/gpu_constants.csv.h"
#include "sim/machine/machine.h"

#include <math.h>
#include <string.h>

/* Accepted values of a profile's constants, from least to most, by platform. 0 marks optional ones. */
enum platforms { ON_GPUS = 1, ON_TPUS = 2, ON_ALL = 7 };
static const struct constant_row {
    const char *name;
    double least, most;
    enum platforms platforms;
    bool whole; /* a count */
} constant_rows[] = {SIM_CONSTANT_ROWS};

const char *sim_constant_name(enum sim_constant constant)
{
    return constant_rows[constant].name;
}

/* The catalogue's values for one JAX device; 0 if absent. */
static void from_chip(const struct topo_topology *topology, struct sim_profile *profile)
{
    const struct topo_chip *chip = &topology->chip;
    double devices = chip->jax_devices_per_chip > 0 ? chip->jax_devices_per_chip : 1;
    bool gpu = topology->kind == TOPO_GPU, xla_limit = chip->xla_hbm_limit_bytes_per_device > 0;
    double *c = profile->constants;
    c[SIM_FLOP_PER_S] = chip->bf16_flop_per_s / devices;
    c[SIM_HBM_BYTES_PER_S] = chip->hbm_bytes_per_s / devices;
    /* NCCL's figures are busbw over the nominal rate of all links of a GPU; a TPU's are a share of one usable link. */
    c[SIM_LINK_BYTES_PER_S] = gpu ? chip->link_nominal_bytes_per_s * (chip->link_count > 0 ? chip->link_count : 1)
                                  : chip->link_oneway_bytes_per_s;
    c[SIM_DCN_BYTES_PER_S] = chip->dcn_bytes_per_s / devices;
    c[SIM_HOST_LINK_BYTES_PER_S] = chip->host_link_bytes_per_s / devices;
    c[SIM_INT8_FLOP_FRAC] = chip->bf16_flop_per_s > 0 ? chip->int8_op_per_s / chip->bf16_flop_per_s : 0;
    c[SIM_NIC_BYTES_PER_S] = chip->nic_bytes_per_s * chip->nics_per_node;
    c[SIM_MATRIX_UNIT_DIM] = chip->mxu_dim;
    c[SIM_MATMUL_EFFICIENCY_FRAC] = chip->matmul_efficiency_frac;
    c[SIM_HBM_EFFICIENCY_FRAC] = chip->hbm_efficiency_frac;
    c[SIM_LINK_EFFICIENCY_FRAC] = chip->collective_efficiency_frac;
    c[SIM_COLLECTIVE_LATENCY_S] = chip->collective_latency_s;
    c[SIM_RESERVED_BYTES] = chip->xla_reserved_bytes_per_device;
    c[SIM_CAPACITY_BYTES] = xla_limit ? chip->xla_hbm_limit_bytes_per_device + chip->xla_reserved_bytes_per_device
                                      : (double)chip->hbm_bytes / devices;
    for (int i = 0; i < SIM_CONSTANT_COUNT; i++) {
        profile->kinds[i] = c[i] > 0 ? "vendor or measured, by the catalogue's row" : NULL;
        profile->sources[i] = chip->source;
    }
    if (xla_limit) profile->sources[SIM_RESERVED_BYTES] = profile->sources[SIM_CAPACITY_BYTES] = chip->xla_source;
}

/* Rates that a vendor states, where the platform has no measured share of the bfloat16 rate. */
static void from_chip_behind(const struct topo_topology *topology, struct sim_profile *profile)
{
    const struct topo_chip *chip = &topology->chip;
    if (profile->constants[SIM_FP8_FLOP_FRAC] > 0 || !(chip->fp8_flop_per_s > 0 && chip->bf16_flop_per_s > 0)) return;
    profile->constants[SIM_FP8_FLOP_FRAC] = chip->fp8_flop_per_s / chip->bf16_flop_per_s;
    profile->kinds[SIM_FP8_FLOP_FRAC] = "vendor";
    profile->sources[SIM_FP8_FLOP_FRAC] = chip->source;
}

int sim_constant_named(const char *name)
{
    for (int i = 0; i < SIM_CONSTANT_COUNT; i++)
        if (!strcmp(constant_rows[i].name, name)) return i;
    return -1;
}

/* Values named in the column `assumed` have no source. */
static enum base_status from_chip_assumed(const struct topo_chip *chip, struct sim_profile *profile,
                                          struct base_error *error)
{
    for (const char *at = chip->assumed; at && *at; at += strspn(at, " ")) {
        char word[64];
        const size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        const int which = sim_constant_named(word);
        if (which < 0 || !(profile->constants[which] > 0))
            return base_fail(error, BASE_INTERNAL, "topo/chips.csv: %s: assumed: \"%s\" names no constant of this row",
                             chip->name, word);
        profile->kinds[which] = "assumed";
        profile->sources[which] = "no source gives it for this chip, and it was not measured";
        at += length;
    }
    return BASE_OK;
}

/* Platform names in the tables. */
static const char *const platforms[] = {
    [TOPO_TPU] = "tpu", [TOPO_GPU] = "gpu", [TOPO_CPU] = "cpu", [TOPO_LOCAL] = "local"};

static const struct platform_row {
    const char *platform;
    enum sim_constant constant;
    double value;
    const char *kind, *source;
} platform_rows[] = {PLATFORM_CONSTANTS_ROWS};

const char *sim_platform_name(enum topo_kind kind)
{
    return platforms[kind];
}

static void set(struct sim_profile *profile, enum sim_constant constant, double value, const char *kind,
                const char *source)
{
    profile->constants[constant] = value;
    profile->kinds[constant] = kind;
    profile->sources[constant] = source;
}

/* Fills gaps of the catalogue with the platform's constants. */
static void from_platform(const struct topo_topology *topology, struct sim_profile *profile)
{
    for (int i = 0; i < BASE_COUNT(platform_rows); i++) {
        const struct platform_row *row = &platform_rows[i];
        if (!strcmp(row->platform, platforms[topology->kind]) && !(profile->constants[row->constant] > 0))
            set(profile, row->constant, row->value, row->kind, row->source);
    }
}

/* A GPU's constants, in general and for a software. An empty cell matches all; later rows are more specific. A value
 * sets the constant, or scales it. */
static const struct gpu_row {
    const char *chip, *software;
    enum sim_constant constant;
    enum { IS, TIMES } how;
    double value;
    const char *kind, *source;
} gpu_rows[] = {GPU_CONSTANTS_ROWS};

static void from_gpu(const struct topo_topology *topology, const char *software, struct sim_profile *profile)
{
    const char *chip = topology->chip.name;
    if (topology->kind != TOPO_GPU) return;
    profile->nccl = sim_nccl_tables;
    profile->nccl_limits = sim_nccl_limits_find(chip);
    profile->tiles = sim_tiles_table;
    for (int i = 0; i < BASE_COUNT(gpu_rows); i++) {
        const struct gpu_row *row = &gpu_rows[i];
        if (!sim_is_of_chip(row->chip, chip) || (*row->software && strcmp(row->software, software) != 0)) continue;
        set(profile, row->constant, row->value * (row->how == TIMES ? profile->constants[row->constant] : 1),
            sim_is_named_chip(row->chip, chip) ? row->kind : "assumed", row->source);
    }
}

/* The row of the software on the platform. The part of memory that a framework leaves to others counts as reserved. */
static enum base_status from_software(const struct topo_topology *topology, const char *name, const char *date,
                                      struct sim_profile *profile, struct base_error *error)
{
    struct sim_software software;
    BASE_TRY(sim_software_find(platforms[topology->kind], topology->chip.name, name, date, &software, error));
    profile->passes = software.passes;
    profile->traits = software.traits;
    profile->software_date = software.date;
    if (software.combine_bytes >= 0) set(profile, SIM_COMBINE_BYTES, software.combine_bytes, "vendor", software.source);
    if (software.attention_block > 0)
        set(profile, SIM_ATTENTION_BLOCK, software.attention_block, "vendor", software.attention_source);
    if (software.attention_products > 0)
        set(profile, SIM_ATTENTION_BACKWARD_PRODUCTS, software.attention_products, "vendor", software.attention_source);
    if (software.memory_frac >= 0)
        set(profile, SIM_RESERVED_BYTES, floor(profile->constants[SIM_CAPACITY_BYTES] * (1 - software.memory_frac)),
            "vendor", software.source);
    return BASE_OK;
}

static enum base_status unknown_member(const char *of, const char *name, const char *const *known, int count,
                                       struct base_error *error)
{
    const char *nearest = base_nearest(name, known, count);
    return base_fail(error, BASE_INPUT, "--profile: %s%.60s: is unknown%s%s%s", of, name,
                     nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

/* {"overlap_collectives": true}: passes that the software's row has not, or has. */
static enum base_status passes_from_user(const struct base_json *given, struct sim_profile *profile,
                                         struct base_error *error)
{
    if (given && given->kind != BASE_JSON_OBJECT)
        return base_fail(
            error, BASE_INPUT,
            "--profile: passes: an object of names and true or false is needed, as in {\"overlap_collectives\": true}");
    for (const struct base_json *p = given ? given->child : NULL; p; p = p->next) {
        const char *passes[SIM_PASS_COUNT];
        int count = sim_pass_choices(passes), which = sim_pass_named(p->key, strlen(p->key));
        if (which < 0) return unknown_member("passes.", p->key, passes, count, error);
        if (p->kind != BASE_JSON_TRUE && p->kind != BASE_JSON_FALSE)
            return base_fail(error, BASE_INPUT, "--profile: passes.%s: true or false is needed", p->key);
        const sim_pass_set pass = SIM_PASS_BIT(which);
        profile->passes = p->kind == BASE_JSON_TRUE ? profile->passes | pass : profile->passes & ~pass;
    }
    return BASE_OK;
}

static enum base_status network_from_user(const struct base_json *given, struct sim_profile *profile,
                                          struct base_error *error)
{
    static const char *const words[] = {"analytic", "simulated"};
    int which;
    if (!given) return BASE_OK;
    if (given->kind != BASE_JSON_STRING)
        return base_fail(error, BASE_INPUT, "--profile: network: \"analytic\" or \"simulated\" is needed");
    BASE_TRY(base_parse_word(given->string, "--profile: network", words, BASE_COUNT(words), &which, error));
    profile->simulated = which == 1;
    return BASE_OK;
}

/* Constants that were calibrated on one chip are refused for another. */
static enum base_status check_chip(const struct base_json *calibration, const struct sim_profile *profile,
                                   struct base_error *error)
{
    const struct base_json *chip = base_json_get(calibration, "chip");
    if (!chip || chip->kind != BASE_JSON_STRING || !*profile->name || !strcmp(chip->string, profile->name))
        return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "--profile: is of %.60s, and this is %s; use measurements of %s, or leave the profile out",
                     chip->string, profile->name, profile->name);
}

static void note_calibration(const struct base_json *calibration, struct sim_profile *profile)
{
    const struct base_json *rows = base_json_get(calibration, "measurements"),
                           *left_out = base_json_get(calibration, "cross_validated");
    profile->calibrated.mean_error_frac = base_json_number(left_out, "mean_error_frac");
    for (const struct base_json *row = rows ? rows->child : NULL; row; row = row->next) profile->calibrated.count++;
    if (!(profile->calibrated.mean_error_frac > 0 && profile->calibrated.mean_error_frac < 10))
        profile->calibrated.count = 0;
}

static int constant_of(const char *name, struct base_error *error)
{
    const char *known[SIM_CONSTANT_COUNT];
    const int which = sim_constant_named(name);
    if (which >= 0) return which;
    for (int i = 0; i < SIM_CONSTANT_COUNT; i++) known[i] = constant_rows[i].name;
    unknown_member("constants.", name, known, SIM_CONSTANT_COUNT, error);
    return -1;
}

/* kind: of the topology that the profile is for; NULL: any. */
static enum base_status take_constant(const struct base_json *given, const enum topo_kind *kind,
                                      struct sim_profile *profile, struct base_error *error)
{
    const double smallest = 1e-18; /* keeps quotients finite */
    const int which = constant_of(given->key, error);
    if (which < 0) return BASE_INPUT;
    const struct constant_row *row = &constant_rows[which];
    const double value = given->number;
    if (given->kind != BASE_JSON_NUMBER || value < row->least || value > row->most ||
        (value != 0 && value < smallest) || (row->whole && value != floor(value)))
        return base_fail(error, BASE_INPUT, "--profile: constants.%s: a %snumber from %g to %g is needed", row->name,
                         row->whole ? "whole " : "", row->least, row->most);
    /* 0 says that there is none, which is so on any platform. */
    if (kind && value != 0 &&
        ((row->platforms == ON_GPUS && *kind == TOPO_TPU) || (row->platforms == ON_TPUS && *kind == TOPO_GPU)))
        return base_fail(error, BASE_INPUT, "--profile: constants.%s: is a constant of %s; leave it out for %s",
                         row->name, row->platforms == ON_GPUS ? "GPUs" : "TPUs", profile->name);
    profile->constants[which] = value;
    profile->kinds[which] = "given";
    profile->sources[which] = "the profile given";
    return BASE_OK;
}

static enum base_status from_user(const struct base_json *overrides, const enum topo_kind *kind,
                                  struct sim_profile *profile, struct base_error *error)
{
    const struct base_json *constants = base_json_get(overrides, "constants"), *name = base_json_get(overrides, "name");
    if (overrides && (!constants || constants->kind != BASE_JSON_OBJECT))
        return base_fail(error, BASE_INPUT,
                         "--profile: constants: an object of names and values is needed, as in {\"constants\": "
                         "{\"hbm_efficiency_frac\": 0.8}}");
    const struct base_json *calibration = base_json_get(overrides, "calibration");
    BASE_TRY(check_chip(calibration, profile, error));
    if (calibration) note_calibration(calibration, profile);
    for (const struct base_json *c = constants ? constants->child : NULL; c; c = c->next)
        BASE_TRY(take_constant(c, kind, profile, error));
    BASE_TRY(network_from_user(base_json_get(overrides, "network"), profile, error));
    BASE_TRY(passes_from_user(base_json_get(overrides, "passes"), profile, error));
    if (name && name->kind == BASE_JSON_STRING) snprintf(profile->name, sizeof profile->name, "%.60s", name->string);
    return BASE_OK;
}

/* Other members are taken for notes; one that is spelled nearly as a known one is refused. */
enum base_status sim_profile_check(const struct base_json *overrides, struct base_error *error)
{
    static const char *const members[] = {"name", "constants", "passes", "network"};
    struct sim_profile unused;
    memset(&unused, 0, sizeof unused);
    for (const struct base_json *m = overrides && overrides->kind == BASE_JSON_OBJECT ? overrides->child : NULL; m;
         m = m->next) {
        const char *nearest = base_nearest(m->key, members, BASE_COUNT(members));
        if (nearest && strcmp(nearest, m->key) != 0)
            return unknown_member("", m->key, members, BASE_COUNT(members), error);
    }
    return from_user(overrides, NULL, &unused, error);
}

void sim_profile_put_passes(const struct base_json *overrides, struct base_json_writer *w)
{
    const struct base_json *given = base_json_get(overrides, "passes");
    if (!given) return;
    base_json_member_value(w, "passes", given);
}

enum base_status sim_profile_build(const struct topo_topology *topology, const char *software, const char *date,
                                   const struct base_json *overrides, struct sim_profile *out, struct base_error *error)
{
    static const char *const prefixes[] = {[TOPO_TPU] = "tpu_", [TOPO_GPU] = "", [TOPO_CPU] = "", [TOPO_LOCAL] = ""};
    static const enum sim_constant needed[] = {SIM_FLOP_PER_S, SIM_HBM_BYTES_PER_S, SIM_CAPACITY_BYTES,
                                               SIM_MATMUL_EFFICIENCY_FRAC, SIM_HBM_EFFICIENCY_FRAC};
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s%s", prefixes[topology->kind], topology->chip.name);
    from_chip(topology, out);
    BASE_TRY(from_chip_assumed(&topology->chip, out, error));
    from_platform(topology, out);
    from_gpu(topology, software, out);
    from_chip_behind(topology, out);
    BASE_TRY(from_software(topology, software, date, out, error));
    out->settings = sim_pass_settings;
    if (topology->kind == TOPO_TPU) BASE_TRY(sim_vector_units_find(topology->chip.name, &out->vector_units, error));
    BASE_TRY(from_user(overrides, &topology->kind, out, error));
    for (int i = 0; i < BASE_COUNT(needed); i++)
        if (!(out->constants[needed[i]] > 0))
            return base_fail(error, BASE_INPUT, "topology: no source gives %s of %s; use a --profile with constants.%s",
                             constant_rows[needed[i]].name, topology->chip.name, constant_rows[needed[i]].name);
    return BASE_OK;
}
