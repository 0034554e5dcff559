/* A run on the plan's devices against the prediction: time of a step, memory, losses. */
#include "reports/reports.h"

enum reports_ran_verdict reports_ran_verdict(const struct reports_ran *ran, const char **message)
{
    const struct base_json *fits = base_json_get(ran->measured, "fits");
    *message = base_json_string(ran->measured, "message", "");
    if (fits && fits->kind == BASE_JSON_TRUE) return REPORTS_RAN;
    return fits && fits->kind == BASE_JSON_FALSE ? REPORTS_RAN_OUT_OF_MEMORY : REPORTS_RAN_NOT;
}

/* Predicted peak of arrays: memory of driver and libraries is outside JAX's allocator. */
static double predicted_bytes(const struct reports_ran *ran)
{
    const struct sim_memory *m = &ran->predicted->memory;
    return (double)(m->peak_bytes - m->reserved_bytes);
}

/* The allocator's peak, if the step exceeded the initialisation of values, else the compiler's figure for the step. */
static double measured_bytes(const struct reports_ran *ran)
{
    double peak = base_json_number(ran->measured, "peak_memory_bytes");
    return peak > base_json_number(ran->measured, "initial_peak_bytes")
               ? peak
               : base_json_number(ran->measured, "compiled_bytes");
}

/* On local topologies, predicted times are for `run`, not for XLA's CPU programs. */
static bool has_time(const struct reports_ran *ran)
{
    return base_json_number(ran->measured, "step_s") > 0 && ran->plan->placement->topology.kind != TOPO_LOCAL;
}

static void put_losses(const struct reports_ran *ran, struct base_text *out)
{
    enum { SHOWN = 8 };
    const struct base_json *losses = base_json_get(ran->measured, "loss"), *loss = losses ? losses->child : NULL;
    base_put(out, "    loss");
    for (int i = 0; loss && i < SHOWN; i++, loss = loss->next) base_putf(out, "%s %.6g", i ? "," : "", loss->number);
    base_put(out, loss ? ", …\n" : "\n");
}

void reports_ran_text(const struct reports_ran *ran, struct base_text *out)
{
    const char *message, *predicted = ran->predicted->fits ? "fits" : "does not";
    const enum reports_ran_verdict verdict = reports_ran_verdict(ran, &message);
    const double step_s = base_json_number(ran->measured, "step_s");
    base_putf(out, "%s on %.0f x %s in %.0f s", verdict == REPORTS_RAN ? "it ran" : "it ran out of memory",
              base_json_number(ran->measured, "device_count"), base_json_string(ran->measured, "device_kind", ""),
              base_json_number(ran->measured, "seconds"));
    base_putf(out, "%s%s\n\n    %-24s %12s %12s\n", *message ? ": " : "", message, "", "predicted", "measured");
    if (step_s > 0)
        reports_put_against(out, "time of a step", has_time(ran) ? base_seconds(ran->predicted->step_s) : "",
                            base_seconds(step_s), has_time(ran) ? ran->predicted->step_s / step_s : 0);
    reports_put_bytes_against(out, "memory of arrays", predicted_bytes(ran), measured_bytes(ran));
    reports_put_bytes_against(out, "  arguments", (double)ran->predicted->memory.argument_bytes,
                              base_json_number(ran->measured, "argument_bytes"));
    reports_put_bytes_against(out, "  results", (double)ran->predicted->memory.output_bytes,
                              base_json_number(ran->measured, "output_bytes"));
    reports_put_against(out, "verdict", predicted, verdict == REPORTS_RAN ? "fits" : "does not", 0);
    if (step_s > 0) put_losses(ran, out);
}

void reports_put_ran(const struct reports_ran *ran, struct base_json_writer *w)
{
    const struct sim_memory *m = &ran->predicted->memory;
    base_json_member_open(w, "predicted", '{');
    base_json_member_double(w, "step_s", ran->predicted->step_s);
    base_json_member_int(w, "array_bytes", m->peak_bytes - m->reserved_bytes);
    base_json_member_int(w, "argument_bytes", m->argument_bytes);
    base_json_member_int(w, "output_bytes", m->output_bytes);
    base_json_member_bool(w, "fits", ran->predicted->fits);
    base_json_close(w, '}');
    base_json_member_value(w, "measured", ran->measured);
    if (has_time(ran))
        base_json_member_double(w, "step_error_frac",
                                ran->predicted->step_s / base_json_number(ran->measured, "step_s") - 1);
    if (measured_bytes(ran) > 0)
        base_json_member_double(w, "memory_error_frac", predicted_bytes(ran) / measured_bytes(ran) - 1);
}
