/* `topology` by itself: the chips and accelerator types that are known by name. */
#include "commands/commands.h"
#include "commands/table.h"

static void put_types(struct base_json_writer *w, const char *chip)
{
    int count;
    const struct topo_slice *slices = topo_slices_of(chip, &count);
    base_json_member_open(w, "accelerator_types", '[');
    for (int i = 0; i < count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_string(w, "accelerator_type", slices[i].accelerator_type);
        base_json_member_ints(w, "shape", slices[i].shape, 3);
        base_json_member_int(w, "chips", slices[i].chip_count);
        base_json_member_int(w, "hosts", slices[i].host_count);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_json(struct base_json_writer *w, const struct topo_chip *chips, int count)
{
    base_json_open(w, '{');
    base_json_member_open(w, "chips", '[');
    for (int i = 0; i < count; i++) {
        base_json_open(w, '{');
        base_json_member_string(w, "name", chips[i].name);
        base_json_member_string(w, "full_name", chips[i].full_name);
        base_json_member_int(w, "devices_per_chip", chips[i].jax_devices_per_chip);
        base_json_member_int(w, "memory_bytes", chips[i].hbm_bytes);
        base_json_member_double(w, "memory_bytes_per_s", chips[i].hbm_bytes_per_s);
        base_json_member_double(w, "bfloat16_flop_per_s", chips[i].bf16_flop_per_s);
        base_json_member_string(w, "fabric", chips[i].fabric);
        base_json_member_int(w, "link_count", chips[i].link_count);
        base_json_member_double(w, "link_bytes_per_s", chips[i].link_oneway_bytes_per_s);
        put_types(w, chips[i].name);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
    base_json_close(w, '}');
}

static const char *amount(struct base_arena *arena, double value, double unit, const char *format)
{
    return value > 0 ? base_print(arena, format, value / unit) : "-";
}

/* An example name: its largest accelerator type, or a shape. */
static const char *largest_words(struct base_arena *arena, const struct topo_chip *chip)
{
    int count;
    const struct topo_slice *slices = topo_slices_of(chip->name, &count), *last = slices + count - 1;
    if (count)
        return base_print(arena, "%s (%dx%dx%d)", last->accelerator_type, last->shape[0], last->shape[1],
                          last->shape[2]);
    if (chip->kind == TOPO_TPU) return base_print(arena, "%s:2x2", chip->name);
    if (chip->kind == TOPO_GPU || chip->kind == TOPO_CPU)
        return base_print(arena, "%s:NODESx%d", chip->name, chip->domain_size > 8 ? chip->domain_size : 8);
    return base_print(arena, "%s:RANKS", chip->name);
}

static void put_text(const struct topo_chip *chips, int count, struct base_text *out)
{
    struct base_arena *arena = out->arena;
    struct commands_table table = commands_table_new(arena, "llrrrrrl", count + 1);
    commands_table_row(&table, "name", "description", "GiB", "GB/s", "bf16 TFLOP/s", "links", "GB/s each",
                       "largest, or how to name one", NULL);
    for (const struct topo_chip *c = chips; c < chips + count; c++)
        commands_table_row(&table, c->name, c->full_name, amount(arena, (double)c->hbm_bytes, 1073741824.0, "%.1f"),
                           amount(arena, c->hbm_bytes_per_s, 1e9, "%.0f"),
                           amount(arena, c->bf16_flop_per_s, 1e12, "%.0f"), amount(arena, c->link_count, 1, "%.0f"),
                           amount(arena, c->link_oneway_bytes_per_s, 1e9, "%.0f"), largest_words(arena, c), NULL);
    commands_table_write(&table, out);
    base_put(out,
             "\nA TPU slice is named by its accelerator type (v4-512) or its shape in chips (v4:4x8x8), GPUs by nodes "
             "and GPUs per node\n(a100-80g:32x8), ranks of this machine by their number (local:4). `meshwright "
             "topology NAME` shows details.\nLinks are those of a chip; the rate is one link's, one way.\n");
}

enum base_status commands_list_topologies(struct commands_context *context, const struct base_arguments *arguments,
                                          struct base_text *out, struct base_error *error)
{
    int count;
    const struct topo_chip *chips = topo_chips(&count);
    (void)arguments, (void)error;
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    if (context->json) put_json(&writer, chips, count);
    else put_text(chips, count, out);
    return BASE_OK;
}
