/* The default range of a search: the options of the plan's software, one row of sim/plan/software_choices.csv each;
 * batches. */
#include "tuner/space.h"

#include <string.h>

enum { LARGEST_SHARE = 32 };

struct tuner_values tuner_split_words(struct base_arena *arena, const char *words)
{
    struct tuner_values values = {base_new(arena, const char *, (int64_t)strlen(words) + 1), 0};
    for (size_t length; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        values.values[values.count++] = base_copy_bytes(arena, words, length);
    }
    return values;
}

enum base_status tuner_software_find(struct base_arena *arena, const struct tuner_request *request,
                                     struct tuner_software *out, struct base_error *error)
{
    static const char *const meshes[] = {"submesh", "num_partitions", "one", "named"};
    static const char *const t5x = "t5x";
    static const struct {
        enum tuner_dimension dimension;
        enum sim_key key;
    } words[] = {{TUNER_REMAT, SIM_REMAT_POLICY},
                 {TUNER_PARTITIONING, SIM_OPTIMIZER_PARTITIONING},
                 {TUNER_SEQUENCE, SIM_SEQUENCE_PARALLEL}};
    const char *software = request->plan.values[SIM_SOFTWARE];
    const bool beyond = request->beyond_t5x;
    int mesh;
    if (!software || !*software || !sim_software_choice(software, "mesh", beyond)) software = t5x;
    out->is_t5x = !strcmp(software, t5x);
    BASE_TRY(base_parse_word(sim_software_choice(software, "mesh", beyond), "mesh", meshes, BASE_COUNT(meshes), &mesh,
                             error));
    out->mesh = (enum tuner_software_mesh)mesh;
    out->rules = tuner_split_words(arena, sim_software_choice(software, "logical_axis_rules", beyond));
    for (int i = 0; i < BASE_COUNT(words); i++)
        out->words[words[i].dimension] =
            tuner_split_words(arena, sim_software_choice(software, sim_plan_keys[words[i].key].name, beyond));
    out->microbatches = tuner_split_words(arena, sim_software_choice(software, "num_microbatches", beyond));
    out->searches_stages = tuner_searches_stages(software);
    out->searches_experts = *sim_software_choice(software, "expert_parallel", beyond);
    out->expert_tensor_parallel =
        tuner_split_words(arena, sim_software_choice(software, "expert_tensor_parallel", beyond));
    return BASE_OK;
}

bool tuner_searches_stages(const char *software)
{
    const char *stages = software && *software ? sim_software_choice(software, "pipeline_stages", false) : NULL;
    return stages && !strcmp(stages, "auto");
}

/* Powers of two and their 1.5-fold, up to 32 sequences per device; of inference powers of two from one on, since small
 * batches answer sooner. There is no natural end, since a larger batch always amortizes the optimizer better; the
 * answer says where the search ended. */
struct tuner_values tuner_auto_batches(struct base_arena *arena, enum model_step step, int device_count)
{
    struct tuner_values out = {base_new(arena, const char *, 64), 0};
    const int64_t most = (int64_t)LARGEST_SHARE * device_count;
    const bool trains = !model_infers(step);
    for (int64_t batch = trains ? 8 : 1; batch <= most || out.count == 0; batch *= 2) {
        out.values[out.count++] = base_print(arena, "%lld", (long long)batch);
        if (trains && batch + batch / 2 <= most)
            out.values[out.count++] = base_print(arena, "%lld", (long long)(batch + batch / 2));
    }
    return out;
}
