/* Pipeline traits of each training software: the rows of pipelines.csv. */
#include "sim/pipeline/pipeline.h"
#include "sim/pipeline/pipelines.csv.h"

#include <string.h>

static const struct sim_pipeline_traits rows[] = {PIPELINES_ROWS};

enum base_status sim_pipeline_traits_find(const char *software, struct sim_pipeline_traits *out,
                                          struct base_error *error)
{
    for (int row = 0; row < BASE_COUNT(rows); row++)
        if (!strcmp(rows[row].software, software)) return *out = rows[row], BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "pipeline_stages: %s has no pipelines, or none that are modelled; use 1, or software megatron, "
                     "megatron_deepspeed, nemo, nanotron, torchtitan or alpa",
                     software);
}
