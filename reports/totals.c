/* A step's total work, and the cost of saving the training state. */
#include "reports/reports.h"

static const char written[] = "Zarr arrays of float32, each shard written once by its host, at the rate of its network "
                              "cards; storage may be slower";

double reports_faster_percent(double gap_frac)
{
    return 100 * gap_frac / (1 - gap_frac);
}

double reports_all_tokens_per_s(const struct sim_plan *plan, const struct sim_prediction *p)
{
    int64_t inputs = plan->config->encoder ? plan->inputs_length : 0;
    return p->samples_per_s * (double)(inputs + plan->targets_length);
}

const char *reports_tokens_words(struct base_arena *arena, const struct sim_plan *plan, const struct sim_prediction *p)
{
    char targets[BASE_HUMANE];
    base_format_count(targets, p->tokens_per_s);
    if (!plan || !plan->config->encoder) return base_print(arena, "%s target tokens/s", targets);
    return base_print(arena, "%s target tokens/s, %s with inputs", targets,
                      base_count(reports_all_tokens_per_s(plan, p)));
}

void reports_put_totals(struct base_json_writer *w, const struct sim_prediction *p)
{
    base_json_member_open_inline(w, "totals", '{');
    base_json_member_double(w, "model_flop", p->model_flop);
    base_json_member_double(w, "hardware_flop", p->hardware_flop);
    if (p->accessed_bytes > 0)
        base_json_member_double(w, "arithmetic_intensity_flop_per_byte", p->hardware_flop / p->accessed_bytes);
    base_json_close(w, '}');
}

void reports_totals_text(const struct sim_prediction *p, struct base_text *out)
{
    base_putf(out, "%sFLOP a step for the model, %sFLOP with recomputation and padding", base_count(p->model_flop),
              base_count(p->hardware_flop));
    if (p->accessed_bytes > 0) base_putf(out, "; %.0f FLOP a byte of memory", p->hardware_flop / p->accessed_bytes);
    base_put(out, "\n");
}

void reports_put_checkpoint(struct base_json_writer *w, const struct sim_checkpoint *c, int64_t offloaded_bytes)
{
    base_json_member_open_inline(w, "checkpoint", '{');
    base_json_member_int(w, "bytes", c->bytes);
    if (c->save_s > 0) base_json_member_double(w, "save_s", c->save_s);
    base_json_member_string(w, "written", written);
    base_json_close(w, '}');
    base_json_member_open_inline(w, "host", '{');
    base_json_member_int(w, "input_bytes", c->host_input_bytes);
    base_json_member_int(w, "checkpoint_bytes", c->host_bytes);
    base_json_member_int(w, "offload_bytes", offloaded_bytes * c->devices_per_host);
    base_json_close(w, '}');
}

void reports_checkpoint_text(const struct sim_checkpoint *c, int64_t offloaded_bytes, struct base_text *out)
{
    base_putf(out, "Checkpoint: %s", base_bytes(c->bytes));
    if (c->save_s > 0) base_putf(out, ", at least %s to save", base_seconds(c->save_s));
    base_put(out, "\n");
    base_putf(out, "Per host: %s of input per batch, %s of memory while saving", base_bytes(c->host_input_bytes),
              base_bytes(c->host_bytes));
    if (offloaded_bytes)
        base_putf(out, ", plus %s of its devices' arrays", base_bytes((double)offloaded_bytes * c->devices_per_host));
    base_put(out, "\n");
}
