/* `collective`: one collective of a mesh axis by itself, as a plan would pay for it. */
#include "commands/commands.h"
#include "commands/table.h"
#include "sim/predict/predict.h"

#include <math.h>
#include <string.h>

enum { LINKS_SHOWN = 8 };

/* ---- the question ---- */

struct question {
    struct commands_mesh on;
    struct sim_placement placement;
    struct sim_network network;
    struct sim_groups groups;
    enum sim_collective kind;
    unsigned axes;
    double bytes;
    bool simulated;
    struct sim_simulated sent; /* by the algorithm that was asked for, or the fastest */
    double sent_s;             /* its time */
    unsigned priced_axes;      /* the same axes as the placement numbers them */
    double analytic_s;
};

static enum base_status read_kind(const struct base_arguments *arguments, enum sim_collective *out,
                                  struct base_error *error)
{
    const char *names[SIM_COLLECTIVE_COUNT];
    int which = 0;
    for (int i = 0; i < SIM_COLLECTIVE_COUNT; i++) names[i] = sim_collective_name((enum sim_collective)i);
    BASE_TRY(commands_option_word(arguments, "--kind", names, SIM_COLLECTIVE_COUNT, &which, error));
    *out = (enum sim_collective)which;
    return BASE_OK;
}

/* A price of loads is of no algorithm: who names one asks for the simulation. */
static enum base_status read_algorithm(const struct base_arguments *arguments, enum sim_algorithm *out, bool *simulated,
                                       struct base_error *error)
{
    static const char *const networks[] = {"analytic", "simulated"};
    const char *names[SIM_ALGORITHM_COUNT];
    int which = SIM_ALGORITHM_COUNT, network = 0;
    for (int i = 0; i < SIM_ALGORITHM_COUNT; i++) names[i] = sim_algorithm_name((enum sim_algorithm)i);
    BASE_TRY(commands_option_word(arguments, "--algorithm", names, SIM_ALGORITHM_COUNT, &which, error));
    const bool named = which < SIM_ALGORITHM_COUNT;
    if (named) network = 1;
    BASE_TRY(commands_option_word(arguments, "--network", networks, BASE_COUNT(networks), &network, error));
    if (named && !network)
        return base_fail(error, BASE_INPUT, "--algorithm: the analytic price has none; use --network simulated");
    *out = (enum sim_algorithm)which;
    *simulated = network == 1;
    return BASE_OK;
}

static enum base_status place(struct commands_context *context, const struct base_arguments *arguments,
                              struct question *q, struct base_error *error)
{
    struct sim_profile profile;
    const struct topo_topology *topology = &q->on.topology;
    BASE_TRY(commands_profile(context, arguments, error));
    BASE_TRY(commands_read_mesh(context->arena, arguments, &q->on, error));
    const struct base_json *overrides = sim_cache_overrides(context->cache);
    BASE_TRY(sim_profile_build(topology, "t5x", NULL, overrides, &profile, error));
    BASE_TRY(sim_placement_build(context->arena, topology, &q->on.request, &profile, &q->placement, error));
    return sim_network_build(context->arena, topology, &q->placement.profile, &q->network, error);
}

/* A placement of a mesh of many axes leaves out some of those of one device. */
static unsigned axes_of_placement(const struct question *q)
{
    unsigned set = 0;
    for (int i = 0; i < q->on.mesh.axes.count; i++) {
        const int placed = topo_axis_named(&q->placement.axes, q->on.mesh.axes.names[i]);
        if (q->axes >> i & 1 && placed >= 0) set |= 1u << placed;
    }
    return set;
}

/* Without an algorithm as predict and tune send it: on NCCL's GPUs with its protocols. */
static enum base_status send(struct base_arena *arena, enum sim_algorithm algorithm, struct question *q,
                             struct base_error *error)
{
    const enum sim_routes routes = sim_routes_of(&q->placement, q->kind, q->priced_axes);
    const bool asked = algorithm != SIM_ALGORITHM_COUNT;
    struct sim_link_cost wire;
    BASE_TRY(asked ? sim_simulate(arena, &q->network, &q->groups, q->kind, algorithm, q->bytes, &q->sent, error)
                   : sim_simulate_fastest(arena, &q->network, &q->groups, q->kind, routes, q->bytes, &q->sent, error));
    q->sent_s = q->sent.traffic.time_s;
    if (asked || !sim_is_of_nccl(&q->placement, q->kind)) return BASE_OK;
    BASE_TRY(sim_link_cost_build(arena, &q->network, &q->groups, q->kind, routes, &wire, error));
    q->sent_s = sim_lowered_s(&q->placement, &wire, q->kind, q->priced_axes, q->bytes);
    return BASE_OK;
}

static enum base_status ask(struct commands_context *context, const struct base_arguments *arguments,
                            struct question *q, struct base_error *error)
{
    static const struct {
        const char *option, *example;
    } needed[] = {{"--kind", "all_reduce"}, {"--mesh-axis", "model"}, {"--bytes", "16MiB"}};
    enum sim_algorithm algorithm = SIM_ALGORITHM_COUNT;
    int64_t count;
    for (int i = 0; i < BASE_COUNT(needed); i++)
        if (!base_argument(arguments, needed[i].option))
            return base_fail(error, BASE_USAGE, "%s is missing; use %s %s", needed[i].option, needed[i].option,
                             needed[i].example);
    const char *axis = base_argument(arguments, "--mesh-axis");
    BASE_TRY(read_kind(arguments, &q->kind, error));
    BASE_TRY(read_algorithm(arguments, &algorithm, &q->simulated, error));
    BASE_TRY(base_parse_bytes(base_argument(arguments, "--bytes"), "--bytes", INT64_C(1) << 50, &count, error));
    BASE_TRY(place(context, arguments, q, error));
    BASE_TRY(topo_axes_read(&q->on.mesh.axes, axis, &q->axes, error));
    q->bytes = (double)count;
    sim_groups_find(context->arena, &q->network, &q->on.mesh, q->axes, &q->groups);
    if (q->groups.size < 2)
        return base_fail(
            error, BASE_INPUT,
            "--mesh-axis: %.60s has one device, and nothing is sent in groups of one; use an axis of several", axis);
    q->priced_axes = axes_of_placement(q);
    if (!base_argument(arguments, "--network") && q->placement.profile.simulated) q->simulated = true;
    q->placement.profile.simulated = false; /* both prices are said */
    q->analytic_s = sim_collective_s(&q->placement, q->kind, q->priced_axes, q->bytes);
    return send(context->arena, algorithm, q, error);
}

/* ---- the answer ---- */

static double answer_s(const struct question *q)
{
    return q->simulated ? q->sent_s : q->analytic_s;
}

/* Bytes that a device must send under any algorithm, divided by the time: the bus bandwidth of nccl-tests. */
static double bus_bandwidth(const struct question *q)
{
    double n = q->groups.size, part = (n - 1) / n, time_s = answer_s(q);
    const double carried[SIM_COLLECTIVE_COUNT] = {[SIM_ALL_REDUCE] = 2 * part * q->bytes,
                                                  [SIM_ALL_GATHER] = part * n * q->bytes,
                                                  [SIM_REDUCE_SCATTER] = part * q->bytes,
                                                  [SIM_ALL_TO_ALL] = part * q->bytes,
                                                  [SIM_COLLECTIVE_PERMUTE] = q->bytes};
    return time_s > 0 ? carried[q->kind] / time_s : 0;
}

static const char *link_name(struct base_arena *arena, const struct topo_link *link)
{
    static const char *const names[TOPO_LINK_KINDS] = {[TOPO_LINK_NVLINK] = "NVLink",
                                                       [TOPO_LINK_NIC] = "network card",
                                                       [TOPO_LINK_HOST] = "host link",
                                                       [TOPO_LINK_DCN] = "data-centre network"};
    if (link->kind != TOPO_LINK_ICI) return names[link->kind];
    return base_print(arena, "link %c%c", "xyz"[link->dimension], link -> down ? '-' : '+');
}

static const char *bound_by(struct base_arena *arena, const struct question *q)
{
    const struct sim_traffic *t = &q->sent.traffic;
    if (t->busiest_link < 0 || t->time_s * t->busy_frac < t->start_s + t->hop_latency_s) return "latency";
    return link_name(arena, &q->network.links.links[t->busiest_link]);
}

/* An end of a link: x, y, z of a chip (slice first, if there are several), or the number of the node. */
static void put_end(const struct question *q, const char *key, int node, struct base_json_writer *w)
{
    const struct topo_network *n = &q->network.links;
    int at[4] = {node}, count = 1;
    if (n->torus && node < n->device_nodes) {
        bool slices = q->on.topology.slice_count > 1;
        int slice, chip[3];
        topo_network_place(n, node, &slice, chip);
        count = 3 + slices;
        at[0] = slice;
        memcpy(at + slices, chip, sizeof chip);
    } else if (node < n->device_nodes) {
        at[0] = node / q->on.topology.bounds[1];
        at[1] = node % q->on.topology.bounds[1];
        count = 2;
    }
    base_json_member_ints(w, key, at, count);
}

static void links_json(const struct question *q, struct base_json_writer *w)
{
    const struct topo_network *n = &q->network.links;
    base_json_member_open(w, "links", '[');
    for (int i = 0; i < n->link_count; i++) {
        if (!(q->sent.traffic.link_bytes[i] > 0)) continue;
        base_json_open_inline(w, '{');
        put_end(q, "from", n->links[i].from, w);
        put_end(q, "to", n->links[i].to, w);
        base_json_member_string(w, "kind", link_name(w->text->arena, &n->links[i]));
        base_json_member_double(w, "bytes", q->sent.traffic.link_bytes[i]);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

/* Basis of the analytic price. */
static const char *price_words(const struct question *q)
{
    if (sim_price_is_exact(&q->placement, q->kind, q->priced_axes)) return "exact for rings along one dimension";
    if (sim_is_of_nccl(&q->placement, q->kind)) return "NCCL's cost model, with its protocols and latencies";
    if (q->on.topology.slice_count > 1) return "inside slices first, then over the data-centre network";
    const struct sim_group *group = &q->placement.groups[q->priced_axes];
    const bool gathers = q->kind == SIM_ALL_GATHER || q->kind == SIM_REDUCE_SCATTER;
    if (gathers && group->ring_seconds_per_byte > group->seconds_per_byte)
        return "one ring over all of these dimensions, by its busiest link";
    return q->network.links.torus ? "an estimate from the mean load of links"
                                  : "a ring at the rate of its slowest part";
}

/* The way that NCCL's tuner takes, and the fastest. */
static void nccl_json(const struct question *q, struct base_json_writer *w)
{
    const struct sim_nccl_price price = sim_nccl_price_of_loads(&q->placement, q->kind, q->priced_axes, q->bytes);
    base_json_member_open_inline(w, "nccl", '{');
    base_json_member_string(w, "way", price.way);
    base_json_member_string(w, "fastest", price.fastest);
    base_json_member_double(w, "fastest_s", price.fastest_s);
    base_json_close(w, '}');
}

/* NCCL's cost model may choose a slower algorithm: a faster link may then take more time. */
static void nccl_text(const struct question *q, struct base_text *out)
{
    const double notable_frac = 0.02;
    const struct sim_nccl_price price = sim_nccl_price_of_loads(&q->placement, q->kind, q->priced_axes, q->bytes);
    if (price.seconds <= (1 + notable_frac) * price.fastest_s) return;
    base_putf(out, "  tuner      takes %s; %s would take %s\n", price.way, price.fastest,
              base_seconds(price.fastest_s));
}

static void answer_json(const struct question *q, bool with_links, struct base_json_writer *w)
{
    base_json_open(w, '{');
    base_json_member_double(w, "time_s", answer_s(q));
    base_json_member_string(w, "network", q->simulated ? "simulated" : "analytic");
    base_json_member_string(w, "algorithm", sim_algorithm_name(q->sent.algorithm));
    base_json_member_double(w, "bus_bandwidth_bytes_per_s", bus_bandwidth(q));
    base_json_member_string(w, "bound_by", bound_by(w->text->arena, q));
    base_json_member_double(w, "analytic_s", q->analytic_s);
    base_json_member_bool(w, "analytic_is_exact", sim_price_is_exact(&q->placement, q->kind, q->priced_axes));
    base_json_member_string(w, "analytic_basis", price_words(q));
    if (sim_is_of_nccl(&q->placement, q->kind)) nccl_json(q, w);
    base_json_member_double(w, "simulated_s", q->sent_s);
    base_json_member_int(w, "groups", q->groups.count);
    base_json_member_int(w, "group_size", q->groups.size);
    base_json_member_int(w, "messages", q->sent.traffic.message_count);
    if (with_links) links_json(q, w);
    base_json_close(w, '}');
}

static void answer_text(const struct question *q, const char *axes, struct base_text *out)
{
    const struct sim_traffic *t = &q->sent.traffic;
    base_putf(out, "%s over %s of %s from each device, %d group%s of %d on %s\n", sim_collective_name(q->kind), axes,
              base_bytes(q->bytes), q->groups.count, q->groups.count == 1 ? "" : "s", q->groups.size,
              q->on.topology.name);
    base_putf(out, "  time       %s, bus bandwidth %s/s (%s)\n", base_seconds(answer_s(q)),
              base_bytes(bus_bandwidth(q)), q->simulated ? "simulated" : "analytic");
    base_putf(out, "  analytic   %s, %s\n", base_seconds(q->analytic_s), price_words(q));
    if (sim_is_of_nccl(&q->placement, q->kind)) nccl_text(q, out);
    base_putf(out, "  simulated  %s by %s: %lld messages, bound by %s", base_seconds(q->sent_s),
              sim_algorithm_name(q->sent.algorithm), (long long)t->message_count, bound_by(out->arena, q));
    if (t->busiest_link >= 0)
        base_putf(out, "; the busiest link is busy %.0f %% of the time", 100 * t->busy_frac * t->time_s / q->sent_s);
    base_put(out, "\n");
}

enum base_status commands_collective_run(struct commands_context *context, const struct base_arguments *arguments,
                                         struct base_text *out, struct base_error *error)
{
    struct question q = {.bytes = 0};
    BASE_TRY(ask(context, arguments, &q, error));
    const char *axes = topo_axes_spell(context->arena, &q.on.mesh.axes, q.axes);
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    if (context->json) answer_json(&q, base_argument(arguments, "--links") != NULL, &writer);
    else answer_text(&q, axes, out);
    return BASE_OK;
}
