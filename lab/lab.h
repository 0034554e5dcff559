/* Commands for developers: the partitioner, the TPU compiler's cost model, random numbers and the reader of training
 * data, each on a single question; charts of accuracy. A separate program, on which nothing depends. */
#ifndef LAB_H
#define LAB_H

#include "commands/commands.h"
#include "commands/table.h"
#include "sim/machine/machine.h"
#include "sim/partition/partition.h"

extern const struct commands_command lab_data, lab_program, lab_partition, lab_fusion, lab_random, lab_accuracy;

/* ---- the TPU compiler's cost model (compiler_cycles.c) ---- */

/* The chips of compiler_cycles.csv and compiler_fusions.csv, as words to choose from. */
#define LAB_COMPILER_CHIPS "v2|v3|v4|v5e|v5p|v6e|tpu7x"
struct lab_compiled_product {
    struct sim_product extents; /* on one device, at least 1 each */
    enum model_dtype operands, result;
    bool is_fetched[2]; /* the compiler has prefetched the operand to vector memory: a copy that overlaps other work */
    /* arrays with the other dimension last than rows x contracted, contracted x columns */
    bool is_transposed[2];
};
struct lab_compiler_cycles {
    double cycles, time_s;     /* of the device: all of its cores together */
    struct sim_product window; /* the part that one core multiplies at once, padded to whole registers */
    bool is_fetched[2];        /* as in the question */
};
/* Operands that the compiler prefetches to vector memory (v4: CMEM) before the product: depends on the program. */
enum lab_surroundings {
    LAB_SURROUNDED_BY_WEIGHTS, /* as OTHERS, with a large weight there from the program's start */
    LAB_SURROUNDED_BY_OTHERS,  /* work before it lasts long enough to hide the copies: as many operands as fit */
    LAB_SURROUNDED_BY_NOTHING, /* the program is the product: one operand, copied behind the program before */
    LAB_SURROUNDED_IN_HBM,     /* whatever else there is, both are read from HBM */
};
/* Sets is_fetched of a product with given extents, dtype of operands and is_transposed. Errors as below. */
enum base_status lab_compiler_fetches(const char *chip, enum lab_surroundings surroundings,
                                      struct lab_compiled_product *product, struct base_error *error);

/* Estimates of libtpu 0.0.42.1, without fusion into the product; not measurements. chip: as in topo's catalogue.
 * BASE_INPUT for chips without constants (compiler_cycles.csv). */
enum base_status lab_compiler_product(const char *chip, const struct lab_compiled_product *product,
                                      struct lab_compiler_cycles *out, struct base_error *error);

/* A fusion without products (compiler_fusions.c). */
enum { LAB_MOST_COMPILED_ARRAYS = 32 };
struct lab_compiled_array {
    enum model_dtype dtype;
    int rank;
    int64_t shape[MODEL_MAX_RANK]; /* on one device */
};
struct lab_compiled_arrays {
    int count;
    struct lab_compiled_array of[LAB_MOST_COMPILED_ARRAYS];
};
struct lab_compiled_fusion {
    struct lab_compiled_arrays operands, results; /* at least one each */
    bool is_alone;                                /* one operation, that the compiler fused to nothing */
    bool is_summing; /* rows of its operands are summed and read again, as in softmax and its derivative */
};
/* "float32[1024,4096];bfloat16[4096]" */
enum base_status lab_compiled_arrays_parse(struct base_arena *arena, const char *text, struct lab_compiled_arrays *out,
                                           struct base_error *error);
/* As lab_compiler_product, without the window. */
enum base_status lab_compiler_fusion(const char *chip, const struct lab_compiled_fusion *fusion,
                                     struct lab_compiler_cycles *out, struct base_error *error);

/* A chip's row of constants (compiler_chips.c). */
struct lab_chip_constant {
    const char *column;
    double *value; /* filled */
};

/* Reads the chip's row of a table with a column "chip". BASE_INPUT names the table's chips where it has no such row. */
enum base_status lab_chip_constants_read(const struct base_table *table, const char *chip,
                                         const struct lab_chip_constant *constants, int count,
                                         struct base_error *error);

/* A kernel that sums rows and reads them again (compiler_cycles.c): its registers of 1024 elements; bytes per element
 * of all full-size operands, of all results, and of the first operand; the number of each, and of results narrower than
 * float32. */
struct lab_summing {
    double registers, operand_bytes, result_bytes, summed_bytes;
    int operand_count, result_count, narrow_count;
};
enum base_status lab_compiler_summing(const char *chip, const struct lab_summing *kernel,
                                      struct lab_compiler_cycles *out, struct base_error *error);

/* ---- one operation by itself (single_operation.c) ---- */

enum { LAB_MOST_OPERATION_COLLECTIVES = 16 };

/* lhs,rhs->out, or one operand to another sharding (equation "reshard"). Shardings are ordered: the major axis first.
 */
struct lab_operation {
    char letters[3][MODEL_MAX_RANK + 1];
    int operand_count; /* 2, or 1 to reshard */
    int rank[3];
    int64_t shape[3][MODEL_MAX_RANK];
    unsigned char axes[3][MODEL_MAX_RANK][SIM_MOST_AXES]; /* numbers in the mesh; of the result: the wanted ones */
    unsigned char axis_count[3][MODEL_MAX_RANK];
    bool free; /* nothing is wanted of the result */
    enum model_dtype dtypes[3];
    struct topo_axes mesh;
    /* answers */
    int64_t local_shape[3][MODEL_MAX_RANK];
    struct lab_operation_collective {
        enum sim_collective kind;
        unsigned axes; /* set of mesh axes */
        enum model_dtype dtype;
        int64_t bytes;
    } collectives[LAB_MOST_OPERATION_COLLECTIVES];
    int collective_count;
};
/* Reads "ble,ef->blf"; every letter needs one extent. */
enum base_status lab_operation_parse(const char *equation, struct lab_operation *out, struct base_error *error);
enum base_status lab_operation_partition(struct lab_operation *operation, struct base_error *error);

/* ---- a sharded program as text (program_text.c), and why it is sharded so (reasons.c) ---- */

/* With why each tensor is sharded as it is, unless why is NULL. */
struct lab_why {
    const struct sim_causes *causes;
    const struct model_rules *rules;
};
void lab_put_program(const struct sim_sharded *sharded, const struct topo_axes *mesh, const int64_t *sizes,
                     const struct lab_why *why, struct base_text *out);
/* "batch->data", "its user mlp/wo"; nothing if unsharded. */
void lab_put_reason(struct base_text *out, const struct model_program *program, const struct model_rules *rules,
                    const struct sim_causes *causes, int instance, int tensor);

#endif
