/* A plan with pipeline stages as the executor runs it. A stage's arena has, for each chunk, its persistent tensors and
 * its waiting messages; a slot for every microbatch in flight; and one region with one scratch for the running pass. */
#include "sim/predict/predict.h"

#include <string.h>

static enum base_status make_piece(struct sim_cache *cache, const struct sim_plan *plan,
                                   struct sim_executable_chunk *piece, struct base_error *error)
{
    const struct sim_program *program;
    struct sim_cost_context p;
    sim_chunk_plan(plan, &piece->split, plan->num_microbatches, &piece->config, &piece->plan);
    BASE_TRY(sim_program_find(cache, &piece->plan, plan->options.remat, 0, SIM_WHOLE_PROGRAM, &program, error));
    BASE_TRY(sim_cost_context_begin(&p, &piece->plan, &program->prices, error));
    piece->program.sharded = program->sharded;
    memcpy(piece->program.sizes, p.sizes, sizeof piece->program.sizes);
    piece->program.mesh = plan->placement->axes;
    return sim_pass_bounds_find(program->sharded, &piece->bounds, error);
}

static enum base_status make_pieces(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                    struct sim_executable_pipeline *out, struct base_error *error)
{
    const int count = out->stages * out->chunks;
    struct sim_pipeline_traits traits;
    struct sim_stage_chunk *split = base_new(arena, struct sim_stage_chunk, SIM_MOST_STAGE_CHUNKS);
    int64_t encoder_layers = 0, decoder_layers = 0;
    BASE_TRY(sim_pipeline_traits_find(plan->software, &traits, error));
    BASE_TRY(sim_split_model(plan->config, &plan->pipeline, traits.division, split, error));
    out->pieces = base_new(arena, struct sim_executable_chunk, count);
    for (int i = 0; i < count; i++) {
        struct sim_executable_chunk *piece = &out->pieces[i];
        piece->split = split[i];
        piece->first_encoder_layer = encoder_layers, piece->first_decoder_layer = decoder_layers;
        encoder_layers += split[i].encoder_layers, decoder_layers += split[i].decoder_layers;
        BASE_TRY(make_piece(cache, plan, piece, error));
    }
    return BASE_OK;
}

/* ---- a stage's arena ---- */

struct layout {
    struct base_arena *arena;
    const struct sim_executable_pipeline *pipeline;
    int stage;
    struct sim_piece_map *maps;          /* by chunk */
    int64_t (*base)[SIM_LIFETIME_COUNT]; /* by chunk: where each lifetime's region begins */
    struct sim_executable_stage *out;
};

static void add_categories(struct layout *l, const int64_t bytes[MODEL_CATEGORY_COUNT], int64_t times)
{
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) l->out->category_bytes[c] += times * bytes[c];
}

/* Each chunk's own places. */
static void put_own(struct layout *l, int chunk)
{
    const struct sim_timetable *timetable = &l->pipeline->timetable;
    const struct sim_piece_map *map = &l->maps[chunk];
    struct sim_executable_chunk *piece = &l->pipeline->pieces[chunk * l->pipeline->stages + l->stage];
    int *slots = base_new(l->arena, int, timetable->microbatches);
    const int slot_count = sim_slots_assign(l->arena, timetable, l->stage, chunk, slots);
    piece->slots = slots;
    piece->flight_bytes = map->bytes[SIM_LIVES_IN_FLIGHT];
    for (int lifetime = SIM_LIVES_ALWAYS; lifetime < SIM_LIVES_IN_PASS; lifetime++) {
        const int64_t times = lifetime == SIM_LIVES_IN_FLIGHT ? slot_count : 1;
        l->base[chunk][lifetime] = l->out->arena_bytes;
        l->out->arena_bytes += times * map->bytes[lifetime];
        add_categories(l, map->category_bytes[lifetime], times);
    }
}

/* The running pass's region, as large as the largest chunk needs. */
static void put_shared(struct layout *l)
{
    int64_t most_bytes = -1, scratch_bytes = 0;
    for (int c = 0; c < l->pipeline->chunks; c++) {
        const struct sim_piece_map *map = &l->maps[c];
        if (map->bytes[SIM_LIVES_IN_PASS] > most_bytes)
            most_bytes = map->bytes[SIM_LIVES_IN_PASS], l->out->peak_chunk = c;
        if (map->map.scratch_bytes > scratch_bytes) scratch_bytes = map->map.scratch_bytes;
    }
    for (int c = 0; c < l->pipeline->chunks; c++) {
        struct sim_memory_map *map = &l->maps[c].map;
        l->base[c][SIM_LIVES_IN_PASS] = l->out->arena_bytes;
        map->scratch_offset_bytes = l->out->arena_bytes + most_bytes;
        map->scratch_bytes = scratch_bytes;
        map->arena_bytes = map->scratch_offset_bytes + scratch_bytes;
    }
    add_categories(l, l->maps[l->out->peak_chunk].category_bytes[SIM_LIVES_IN_PASS], 1);
    l->out->category_bytes[MODEL_TEMPORARY] += scratch_bytes;
    l->out->arena_bytes += most_bytes + scratch_bytes;
}

static void move_offsets(const struct layout *l, int chunk)
{
    struct sim_executable_chunk *piece = &l->pipeline->pieces[chunk * l->pipeline->stages + l->stage];
    const struct sim_piece_map *map = &l->maps[chunk];
    for (int v = 0; v < piece->program.sharded->value_count; v++)
        if (map->map.offset_bytes[v] >= 0) map->map.offset_bytes[v] += l->base[chunk][map->lifetime[v]];
    piece->program.map = map->map;
    piece->lifetime = map->lifetime;
}

static void lay_out(struct base_arena *arena, struct sim_executable_pipeline *pipeline, int stage)
{
    struct layout l = {.arena = arena, .pipeline = pipeline, .stage = stage, .out = &pipeline->of_stage[stage]};
    l.maps = base_new(arena, struct sim_piece_map, pipeline->chunks);
    l.base = base_alloc(arena, (size_t)pipeline->chunks, sizeof *l.base);
    for (int c = 0; c < pipeline->chunks; c++) {
        const struct sim_executable_chunk *piece = &pipeline->pieces[c * pipeline->stages + stage];
        sim_piece_map_build(arena, piece->program.sharded, piece->program.sizes, &piece->program.mesh, &piece->bounds,
                            &l.maps[c]);
        put_own(&l, c);
    }
    put_shared(&l);
    for (int c = 0; c < pipeline->chunks; c++) move_offsets(&l, c);
}

enum base_status sim_executable_pipeline(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                         struct sim_executable_pipeline *out, struct base_error *error)
{
    *out = (struct sim_executable_pipeline){.stages = (int)plan->pipeline.stages, .chunks = (int)plan->pipeline.chunks};
    BASE_TRY(make_pieces(cache, arena, plan, out, error));
    BASE_TRY(sim_timetable_make(arena, &plan->pipeline, plan->num_microbatches, &out->timetable, error));
    BASE_TRY(sim_event_order_make(arena, &out->timetable, &out->order, error));
    out->of_stage = base_new(arena, struct sim_executable_stage, out->stages);
    for (int i = 0; i < out->stages; i++) lay_out(arena, out, i);
    return BASE_OK;
}

void sim_price_stage_arena(const struct sim_executable_pipeline *pipeline, int stage, struct sim_cost_context *p,
                           double persistent_bytes[MODEL_CATEGORY_COUNT])
{
    const struct sim_executable_stage *of = &pipeline->of_stage[stage];
    const struct sim_executable_chunk *piece = &pipeline->pieces[of->peak_chunk * pipeline->stages + stage];
    p->peak = sim_peak_at(piece->program.sharded, piece->program.map.peak_op);
    sim_price_arena(p, of->arena_bytes, of->category_bytes, persistent_bytes);
}
