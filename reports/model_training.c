/* Training parameters of zoo models that affect no price: rotary base, epsilon of norms, learning rate, weight decay
 * (model_training.csv). An exported job sets them, since the software's defaults are another model's. */
#include "reports/launch_torch.h"

#include <string.h>

extern const struct base_table embedded_reports_model_training_csv;
static const struct base_table *const table = &embedded_reports_model_training_csv;

/* The row of the model, as it is called here or elsewhere; -1: none. */
static int find_row(struct base_arena *arena, const char *model)
{
    const char *name = model_zoo_name(arena, model);
    for (int row = 0; row < table->row_count && name; row++)
        if (!strcmp(base_table_field(table, row, base_table_column(table, "model")), name)) return row;
    return -1;
}

void reports_put_megatron_training(const struct sim_plan *plan, struct base_text *out)
{
    static const struct {
        const char *column, *option;
    } rows[] = {{"rotary_base", "--rotary-base"},
                {"norm_epsilon", "--norm-epsilon"},
                {"weight_decay", "--weight-decay"},
                {"adam_beta2", "--adam-beta2"}};
    const int row = find_row(out->arena, plan->model_text);
    if (row < 0)
        base_put(out, "# rotary base, epsilon of norms, weight decay: Megatron-LM's own here; give your model's\n");
    for (int i = 0; i < BASE_COUNT(rows) && row >= 0; i++) {
        const char *value = base_table_field(table, row, base_table_column(table, rows[i].column));
        if (*value) base_putf(out, "%s %s\n", rows[i].option, value);
    }
    const char *rate = row < 0 ? "" : base_table_field(table, row, base_table_column(table, "learning_rate"));
    base_put(out, "--clip-grad 1.0\n--lr ");
    if (*rate && !plan->says_learning_rate) base_put(out, rate);
    else base_put_double(out, plan->learning_rate);
    base_put(out, "\n");
}
