/* Part of cost.h: the memory that PyTorch's allocator takes. */
#ifndef SIM_TORCH_ALLOCATIONS_H
#define SIM_TORCH_ALLOCATIONS_H

/* torch_memory.c: bytes that PyTorch's allocator reserves beyond live tensors; after sim_price_time */
double sim_torch_held_bytes(const struct sim_cost_context *p);
/* Of a microbatch, in blocks that wait for a stream. A stage's host reads what it sends and receives, and so waits for
 * the device in each microbatch; some software then holds a share of them for each in flight. */
double sim_torch_waiting_bytes(const struct sim_cost_context *p);
/* torch_replayed.c: the name of a key that the replay does not cover, where the software's steps are replayed; or NULL.
 */
const char *sim_torch_unreplayed(const struct sim_plan *plan);
/* torch_step.c: a step's allocations through PyTorch's caching allocator, of torchtitan's Llama 3 under FSDP2 */
struct sim_torch_memory {
    double allocated_bytes, reserved_bytes, bytes[MODEL_CATEGORY_COUNT]; /* bytes: live bytes at the peak */
};
bool sim_torch_replay(struct base_arena *scratch, struct sim_cost_context *p, const struct sim_detail *detail,
                      struct sim_torch_memory *out); /* false: the plan is none of those. Names p's peak. */
/* offload.c: whether cpu_offload keeps this state on the host between steps; and the host's extra step time. */
bool sim_is_on_host(const struct sim_plan *plan, enum model_category category);
double sim_on_host_bytes(const struct sim_cost_context *p);
double sim_waited_for_host_s(const struct sim_cost_context *p);

#endif
