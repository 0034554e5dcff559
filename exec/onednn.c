/* The only user of oneDNN. A product is prepared once per shape, with open matrix addresses, and run many times. */
#include "exec/onednn.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

/* Shapes of a model's whole contractions, of tiles, and of the remainders at their ends. */
enum { MOST_SHAPES = 1024, ARGUMENTS = 4, MATRICES = 3 };

/* The cache key of a product: rows, columns, depth, and memory layout. */
struct shape {
    int64_t rows, columns, depth, strides[MATRICES][2];
    int32_t c_type, add;
};

struct product {
    struct shape shape;
    bool usable;
    size_t workspace_bytes;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[ARGUMENTS]; /* a, b, c, workspace */
};

struct exec_onednn {
    struct base_arena *arena;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_data_type_t operands;
    struct product products[MOST_SHAPES];
    int count;
};

/* Want of memory ends the run: another kernel in this one's place would give other last bits. */
static bool is_done(struct base_arena *arena, dnnl_status_t status)
{
    if (status == dnnl_out_of_memory) longjmp(*arena->exhausted, 1);
    return status == dnnl_success;
}

bool exec_onednn_is_wide(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

bool exec_onednn_multiply(struct base_arena *arena, int64_t rows, int64_t columns, int64_t depth,
                          const struct exec_onednn_matrix *a, const struct exec_onednn_matrix *b, float *c,
                          int64_t c_leading, enum exec_writing store)
{
    omp_set_num_threads(1);
    return is_done(arena,
                   dnnl_sgemm(a->transposed ? 'T' : 'N', b->transposed ? 'T' : 'N', rows, columns, depth, 1.0f, a->at,
                              a->leading, b->at, b->leading, store == EXEC_ACCUMULATE ? 1.0f : 0.0f, c, c_leading));
}

static bool has_instructions(enum model_dtype operands)
{
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return operands == MODEL_FLOAT32 || (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

const char *exec_onednn_kernel(const struct exec_onednn *self)
{
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    bool amx = (isa & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
    return self->operands == dnnl_f32 ? "oneDNN float32" : amx ? "oneDNN amx_bf16" : "oneDNN avx512_bf16";
}

struct exec_onednn *exec_onednn_begin(struct base_arena *arena, enum model_dtype operands)
{
    if (!has_instructions(operands)) return NULL;
    struct exec_onednn *self = base_new(arena, struct exec_onednn, 1);
    omp_set_num_threads(1);
    self->arena = arena;
    self->operands = operands == MODEL_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
    if (!is_done(arena, dnnl_engine_create(&self->engine, dnnl_cpu, 0))) return NULL;
    if (is_done(arena, dnnl_stream_create(&self->stream, self->engine, dnnl_stream_default_flags))) return self;
    dnnl_engine_destroy(self->engine);
    return NULL;
}

static void destroy(struct product *p)
{
    for (int i = 0; i < ARGUMENTS; i++)
        if (p->arguments[i].memory) dnnl_memory_destroy(p->arguments[i].memory);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
}

void exec_onednn_end(struct exec_onednn *self)
{
    for (int i = 0; self && i < self->count; i++) destroy(&self->products[i]);
    if (!self) return;
    dnnl_stream_destroy(self->stream);
    dnnl_engine_destroy(self->engine);
}

/* ---- preparing ---- */

static bool describe(dnnl_memory_desc_t *out, int64_t rows, int64_t columns, const int64_t strides_of[2],
                     dnnl_data_type_t type)
{
    const dnnl_dims_t sizes = {rows, columns}, strides = {strides_of[0], strides_of[1]};
    return dnnl_memory_desc_init_by_strides(out, 2, sizes, type, strides) == dnnl_success;
}

/* The caller owns the workspace; the old result is added if requested. */
static bool make_attributes(struct base_arena *arena, enum exec_writing store, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t after = NULL;
    *out = NULL;
    if (!is_done(arena, dnnl_primitive_attr_create(out))) return false;
    bool made = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user) == dnnl_success;
    if (made && store == EXEC_ACCUMULATE)
        made = is_done(arena, dnnl_post_ops_create(&after)) && is_done(arena, dnnl_post_ops_append_sum(after, 1.0f)) &&
               is_done(arena, dnnl_primitive_attr_set_post_ops(*out, after));
    if (after) dnnl_post_ops_destroy(after);
    return made;
}

static bool make_memory(const struct exec_onednn *self, struct product *p, int argument, int kind,
                        const dnnl_memory_desc_t *desc)
{
    p->arguments[argument].arg = kind;
    return is_done(self->arena,
                   dnnl_memory_create(&p->arguments[argument].memory, desc, self->engine, DNNL_MEMORY_NONE));
}

static bool prepare(const struct exec_onednn *self, struct product *p, const_dnnl_primitive_desc_t desc,
                    const dnnl_memory_desc_t matrices[MATRICES])
{
    static const int kinds[MATRICES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const dnnl_memory_desc_t *workspace = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    bool made = workspace && is_done(self->arena, dnnl_primitive_create(&p->primitive, desc));
    for (int i = 0; i < MATRICES && made; i++) made = make_memory(self, p, i, kinds[i], &matrices[i]);
    p->workspace_bytes = workspace ? dnnl_memory_desc_get_size(workspace) : 0;
    return made && make_memory(self, p, MATRICES, DNNL_ARG_SCRATCHPAD, workspace);
}

/* The reference implementation supports any strides but is slow. */
static bool is_fast(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name &&
           strncmp(name, "ref", strlen("ref")) != 0;
}

static bool make(const struct exec_onednn *self, struct product *p)
{
    const struct shape *s = &p->shape;
    dnnl_memory_desc_t matrices[MATRICES];
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    bool made = describe(&matrices[0], s->rows, s->depth, s->strides[0], self->operands) &&
                describe(&matrices[1], s->depth, s->columns, s->strides[1], self->operands) &&
                describe(&matrices[2], s->rows, s->columns, s->strides[2], (dnnl_data_type_t)s->c_type) &&
                dnnl_matmul_desc_init(&matmul, &matrices[0], &matrices[1], NULL, &matrices[2]) == dnnl_success &&
                make_attributes(self->arena, s->add ? EXEC_ACCUMULATE : EXEC_OVERWRITE, &attributes) &&
                is_done(self->arena, dnnl_primitive_desc_create(&desc, &matmul, attributes, self->engine, NULL)) &&
                is_fast(desc) && prepare(self, p, desc, matrices);
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    return made;
}

/* The found product moves to the front: a contraction asks for it repeatedly. */
static struct product *find(struct exec_onednn *self, const struct shape *shape)
{
    for (int i = 0; i < self->count; i++) {
        struct product *p = &self->products[i];
        if (memcmp(&p->shape, shape, sizeof *shape) != 0) continue;
        const struct product found = *p;
        *p = self->products[0];
        self->products[0] = found;
        return &self->products[0];
    }
    if (self->count == MOST_SHAPES) return NULL;
    struct product *p = &self->products[self->count++];
    *p = (struct product){.shape = *shape};
    p->usable = make(self, p);
    return p;
}

/* ---- running ---- */

static void *untyped(const void *bytes)
{
    union {
        const void *given;
        void *taken;
    } place = {.given = bytes}; /* operands are only read */
    return place.taken;
}

bool exec_onednn_gemm(struct exec_onednn *self, int64_t rows, int64_t columns, int64_t depth,
                      const struct exec_onednn_operand *a, const struct exec_onednn_operand *b,
                      const struct exec_onednn_operand *c, enum model_dtype c_dtype, enum exec_writing store,
                      void *workspace, size_t workspace_bytes)
{
    const struct exec_onednn_operand *const matrices[MATRICES] = {a, b, c};
    struct shape shape;
    memset(&shape, 0, sizeof shape); /* the comparison includes padding */
    shape.rows = rows, shape.columns = columns, shape.depth = depth, shape.add = store == EXEC_ACCUMULATE;
    shape.c_type = c_dtype == MODEL_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
    for (int i = 0; i < MATRICES; i++)
        shape.strides[i][0] = matrices[i]->row_stride, shape.strides[i][1] = matrices[i]->column_stride;
    struct product *p = rows && columns && depth ? find(self, &shape) : NULL;
    if (!p || !p->usable || p->workspace_bytes > workspace_bytes) return false;
    for (int i = 0; i < ARGUMENTS; i++)
        if (dnnl_memory_set_data_handle_v2(p->arguments[i].memory, i < MATRICES ? untyped(matrices[i]->at) : workspace,
                                           self->stream) != dnnl_success)
            return false;
    return is_done(self->arena, dnnl_primitive_execute(p->primitive, self->stream, ARGUMENTS, p->arguments)) &&
           is_done(self->arena, dnnl_stream_wait(self->stream));
}
