/* Training software: its compiler's passes by date and platform, its modelling traits, and its share of a device's
 * memory. One row each (software.csv). */
#include "sim/compile/passes.h"

#include <string.h>

extern const struct base_table embedded_sim_compile_software_csv, embedded_sim_compile_attention_csv;

static int trait_named(const char *name, size_t length)
{
    for (int trait = 0; trait < MODEL_TRAIT_COUNT; trait++) {
        const char *known = model_trait_name((enum model_trait)trait);
        if (!strncmp(known, name, length) && !known[length]) return trait;
    }
    return -1;
}

/* Reads "a b c" as a set of bits. The table is built in, so an error in it is internal. */
static enum base_status read_set(const char *table, const char *text, int (*named)(const char *name, size_t length),
                                 uint64_t *out, struct base_error *error)
{
    *out = 0;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, " ");
        int word = named(at, length);
        if (word < 0)
            return base_fail(error, BASE_INTERNAL, "%s: \"%.*s\" is no pass and no trait", table, (int)length, at);
        *out |= (uint64_t)1 << word;
        at += length + strspn(at + length, " ");
    }
    return BASE_OK;
}

enum base_status sim_pass_set_read(const char *table, const char *text, sim_pass_set *out, struct base_error *error)
{
    return read_set(table, text, sim_pass_named, out, error);
}

enum base_status sim_trait_set_read(const char *table, const char *text, model_trait_set *out, struct base_error *error)
{
    return read_set(table, text, trait_named, out, error);
}

static const struct base_table *const softwares = &embedded_sim_compile_software_csv;

static const char *field(int row, const char *column)
{
    return base_table_field(softwares, row, base_table_column(softwares, column));
}

/* -1: the cell is empty. */
static enum base_status read_number(int row, const char *column, double *out, struct base_error *error)
{
    const char *text = field(row, column);
    *out = -1;
    return *text ? base_parse_double(text, column, 0, 1e30, out, error) : BASE_OK;
}

static const struct base_table *const attentions = &embedded_sim_compile_attention_csv;

/* Reads the attention kernel of the software's row. Blocks of 0: no block is skipped. */
static enum base_status read_attention(int row, struct sim_software *out, struct base_error *error)
{
    int software = base_table_column(attentions, "software"), platform = base_table_column(attentions, "platform"),
        block = base_table_column(attentions, "block"), products = base_table_column(attentions, "backward_products");
    static const double no_block = 1 << 24;
    out->attention_block = out->attention_products = -1;
    for (int i = 0; i < attentions->row_count; i++) {
        if (strcmp(base_table_field(attentions, i, software), field(row, "software")) != 0 ||
            strcmp(base_table_field(attentions, i, platform), field(row, "platform")) != 0)
            continue;
        BASE_TRY(base_parse_double(base_table_field(attentions, i, block), "block", 0, no_block, &out->attention_block,
                                   error));
        if (out->attention_block == 0) out->attention_block = no_block;
        out->attention_source = base_table_field(attentions, i, base_table_column(attentions, "source"));
        return base_parse_double(base_table_field(attentions, i, products), "backward_products", 5, 8,
                                 &out->attention_products, error);
    }
    return BASE_OK;
}

static enum base_status read_row(int row, struct sim_software *out, struct base_error *error)
{
    BASE_TRY(sim_pass_set_read(softwares->name, field(row, "passes"), &out->passes, error));
    BASE_TRY(read_set(softwares->name, field(row, "traits"), trait_named, &out->traits, error));
    BASE_TRY(read_number(row, "combine_bytes", &out->combine_bytes, error));
    BASE_TRY(read_number(row, "memory_fraction", &out->memory_frac, error));
    BASE_TRY(read_attention(row, out, error));
    out->source = field(row, "source"), out->date = field(row, "date");
    return BASE_OK;
}

struct names {
    const char *all[64], *modelled[64];
    int count, modelled_count;
    bool has_it; /* the requested software exists on some platform */
};

static enum base_status unknown(const char *software, const char *platform, const struct names *names,
                                struct base_error *error)
{
    char modelled[160] = "";
    for (int i = 0; i < names->modelled_count; i++) {
        size_t used = strlen(modelled);
        snprintf(modelled + used, sizeof modelled - used, "%s%s", i ? ", " : "", names->modelled[i]);
    }
    const char *nearest = base_meant("software", software, names->all, names->count);
    if (names->has_it)
        return base_fail(error, BASE_INPUT, "software: %s is not modelled on %s yet; use %s", software, platform,
                         modelled);
    return base_fail(error, BASE_INPUT, "software: \"%.60s\" is unknown%s%s%s use %s", software,
                     nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : ";", modelled);
}

static bool is_of(const char *row, const char *platform, const char *chip)
{
    size_t length = strlen(platform);
    return !strncmp(row, platform, length) && row[length] == ':' && !strcmp(row + length + 1, chip);
}

/* The software's newest row for the platform or chip; with a date, the newest up to that date, or else the oldest. A
 * row of the chip precedes one of the same date. -1: none. */
static int row_of_date(const char *platform, const char *chip, const char *software, const char *date)
{
    int best = -1;
    for (int row = 0; row < softwares->row_count; row++) {
        const bool own = is_of(field(row, "platform"), platform, chip);
        if (strcmp(field(row, "software"), software) != 0 || (!own && strcmp(field(row, "platform"), platform) != 0))
            continue;
        const char *since = field(row, "date"), *best_since = best >= 0 ? field(best, "date") : "";
        const bool is_early = !date || strcmp(since, date) <= 0, best_is_early = !date || strcmp(best_since, date) <= 0;
        const int order = strcmp(since, best_since);
        if (best < 0 || (is_early && !best_is_early) ||
            (is_early == best_is_early && (is_early ? order > 0 || (order == 0 && own) : order < 0)))
            best = row;
    }
    return best;
}

enum base_status sim_software_find(const char *platform, const char *chip, const char *software, const char *date,
                                   struct sim_software *out, struct base_error *error)
{
    struct names names = {.count = 0};
    const int dated = row_of_date(platform, chip, software, date);
    if (dated >= 0) return read_row(dated, out, error);
    for (int row = 0; row < softwares->row_count; row++) {
        const char *name = field(row, "software");
        bool same = !strcmp(name, software), here = !strcmp(field(row, "platform"), platform);
        if (names.count < BASE_COUNT(names.all)) names.all[names.count++] = name;
        for (int i = 0; i < names.modelled_count; i++) here = here && strcmp(names.modelled[i], name) != 0;
        if (here && names.modelled_count < BASE_COUNT(names.modelled)) names.modelled[names.modelled_count++] = name;
        names.has_it = names.has_it || same;
    }
    return unknown(software, platform, &names, error);
}

int sim_software_names(const char *platform, const char **out, int limit)
{
    const size_t length = strlen(platform);
    int count = 0;
    for (int row = 0; row < softwares->row_count && count < limit; row++) {
        const char *name = field(row, "software"), *on = field(row, "platform");
        bool known = strncmp(on, platform, length) != 0 || (on[length] && on[length] != ':');
        for (int i = 0; i < count; i++) known = known || !strcmp(out[i], name);
        if (!known) out[count++] = name;
    }
    return count;
}
