/* Parameters of passes: costs, and eligible tensors. One row each (pass_settings.csv). */
#include "sim/compile/compile.h"

#include <stddef.h>
#include <string.h>

extern const struct base_table embedded_sim_compile_pass_settings_csv;

enum type { NUMBER, ROLES };
static const struct {
    const char *pass, *setting;
    enum type type;
    size_t offset; /* in struct sim_settings */
} table[] = {
    {"rematerialize", "roles", ROLES, offsetof(struct sim_settings, rematerialized_roles)},
    {"rematerialize", "roles_in_loop", ROLES, offsetof(struct sim_settings, rematerialized_roles_in_loop)},
    {"overlap_collectives", "collective_latency", NUMBER, offsetof(struct sim_settings, collective_latency)},
    {"overlap_collectives", "other_latency", NUMBER, offsetof(struct sim_settings, other_latency)},
    {"overlap_collectives", "dot_cost", NUMBER, offsetof(struct sim_settings, dot_cost)},
    {"overlap_collectives", "kernel_cost", NUMBER, offsetof(struct sim_settings, kernel_cost)},
    {"overlap_collectives", "least_cost", NUMBER, offsetof(struct sim_settings, least_cost)},
    {"rematerialize", "aimed_frac", NUMBER, offsetof(struct sim_settings, aimed_frac)},
    {"rematerialize", "roles_frac", NUMBER, offsetof(struct sim_settings, roles_frac)},
    {"track_lifetimes", "least_summed_gather_devices", NUMBER,
     offsetof(struct sim_settings, least_summed_gather_devices)},
    {"track_lifetimes", "most_summed_gather_bytes", NUMBER, offsetof(struct sim_settings, most_summed_gather_bytes)},
    {"window_products", "least_ring", NUMBER, offsetof(struct sim_settings, least_ring)},
    {"window_products", "most_ring", NUMBER, offsetof(struct sim_settings, most_ring)},
    {"collective_matmul", "most_pieces", NUMBER, offsetof(struct sim_settings, most_pieces)},
    {"track_lifetimes", "most_combined_bytes", NUMBER, offsetof(struct sim_settings, most_combined_bytes)},
    {"track_lifetimes", "accumulator_bytes", NUMBER, offsetof(struct sim_settings, accumulator_bytes)},
};

static const struct {
    const char *name;
    enum model_role role;
} roles[] = {{"query_key", MODEL_ROLE_QUERY_KEY},   {"value", MODEL_ROLE_VALUE},
             {"softmax", MODEL_ROLE_SOFTMAX},       {"context", MODEL_ROLE_CONTEXT},
             {"projection", MODEL_ROLE_PROJECTION}, {"mlp_hidden", MODEL_ROLE_MLP_HIDDEN}};

/* "softmax value" to bits. */
static enum base_status read_roles(const char *text, unsigned *out, struct base_error *error)
{
    unsigned set = 0;
    for (const char *at = text; *at;) {
        int length = (int)strcspn(at, " "), which = 0;
        while (which < BASE_COUNT(roles) &&
               (strncmp(roles[which].name, at, (size_t)length) != 0 || roles[which].name[length]))
            which++;
        if (which == BASE_COUNT(roles))
            return base_fail(error, BASE_INTERNAL, "pass_settings.csv: \"%.*s\" is no role of a tensor", length, at);
        set |= 1u << roles[which].role;
        at += length + (int)strspn(at + length, " ");
    }
    *out = set;
    return BASE_OK;
}

static const struct base_table *const settings = &embedded_sim_compile_pass_settings_csv;

static enum base_status read_row(int row, struct sim_settings *out, bool *seen, struct base_error *error)
{
    const char *pass = base_table_field(settings, row, base_table_column(settings, "pass")),
               *setting = base_table_field(settings, row, base_table_column(settings, "setting")),
               *value = base_table_field(settings, row, base_table_column(settings, "value"));
    for (int i = 0; i < BASE_COUNT(table); i++) {
        if (strcmp(table[i].pass, pass) != 0 || strcmp(table[i].setting, setting) != 0) continue;
        void *field = (char *)out + table[i].offset;
        seen[i] = true;
        if (table[i].type == ROLES) return read_roles(value, field, error);
        return base_parse_double(value, setting, 0, 1e18, field, error);
    }
    return base_fail(error, BASE_INTERNAL, "pass_settings.csv: unknown row: %s of %s", setting, pass);
}

/* The table is built in: an error in it is internal. */
enum base_status sim_settings_read(struct sim_settings *out, struct base_error *error)
{
    bool seen[BASE_COUNT(table)] = {false};
    for (int row = 0; row < settings->row_count; row++) BASE_TRY(read_row(row, out, seen, error));
    for (int i = 0; i < BASE_COUNT(table); i++)
        if (!seen[i])
            return base_fail(error, BASE_INTERNAL, "pass_settings.csv: %s of %s is missing", table[i].setting,
                             table[i].pass);
    return BASE_OK;
}
