/* Private to exec/: a step of the program, and the kernels that run one operation on one device. */
#ifndef EXEC_KERNELS_H
#define EXEC_KERNELS_H

#include "exec/this_machine.h"

/* run.c: BASE_INPUT names what the interpreter does not support */
enum base_status exec_check_plan(const struct sim_plan *plan, struct base_error *error);

/* interpreter.c: one step, from batches in the arenas to updated parameters */
enum base_status exec_check_program(struct exec_machine *machine);
void exec_step(struct exec_machine *machine);
void exec_begin_step(struct exec_machine *machine);                  /* resets sums and loop indices */
void exec_run_range(struct exec_machine *machine, int from, int to); /* operations; must contain whole loops */
/* stage_machines.c: copies the neighbour's message into place */
void exec_receive(struct exec_machine *machine, const struct sim_op *op);
/* kernels; each runs one kernel of the program on one device */
void exec_rows(struct exec_machine *machine, int kernel, int device);                  /* row_kernels.c */
void exec_reduction(struct exec_machine *machine, int kernel, int device);             /* row_kernels.c */
void exec_contract(struct exec_machine *machine, const struct sim_op *op, int device); /* contract.c */
void exec_lookup(struct exec_machine *machine, const struct sim_op *op, int device);   /* lookup.c */
/* movement.c: keys of latent attention, of two parts, and the gradients of either */
void exec_join_keys(struct exec_machine *machine, const struct sim_op *op, int device);
/* movement.c: multiplies a product's result by its factor */
void exec_scale(struct exec_machine *machine, const struct sim_op *op, int device);
void exec_move(struct exec_machine *machine, const struct sim_op *op,
               int device); /* movement.c: slices, repeated heads */
/* movement.c: rows of tokens as groups with zeros behind them, and back */
void exec_pad(struct exec_machine *machine, const struct sim_op *op, int device);
bool exec_can_pad(const struct exec_machine *machine, const struct sim_op *op, int device);
void exec_roll_tokens(const struct exec_machine *machine, const struct sim_op *op, int device); /* blocks.c */
void exec_route(struct exec_machine *machine, const struct sim_op *op, int device);             /* routing.c */
void exec_permute(struct exec_machine *machine, const struct sim_op *op, int device);           /* sorted_rows.c */
bool exec_can_move(const struct exec_machine *machine, const struct sim_op *op, int device);
void exec_communicate(struct exec_machine *machine, const struct sim_op *op); /* collectives.c: all devices at once */

/* Counts the targets with the largest logit in an evaluation step (token_accuracy.c). */
void exec_note_accuracy(struct exec_machine *machine, int kernel, int device);
bool exec_can_communicate(struct exec_machine *machine,
                          const struct sim_op *op); /* whether the group has all data that each device needs */

#endif
