/* The catalogue of chips and slices: chips.csv and slices.csv, embedded at build, read once. */
#include "topo/topo.h"

#include <string.h>
#include <threads.h>

extern const char embedded_topo_chips_csv[], embedded_topo_slices_csv[];

enum { MOST_CHIPS = 64, MOST_SLICES = 1024, MOST_COLUMNS = 64 };

enum column_type { TEXT, COUNT, BYTES, REAL, FLAG, KIND, SHAPE };

/* One column of a table and the field that it fills. An empty cell leaves the field 0. */
struct column {
    const char *name;
    enum column_type type;
    size_t offset;
};

#define COLUMN(type_, row, name_)                                                                                      \
    {                                                                                                                  \
#name_, type_, offsetof(struct row, name_)                                                                     \
    }

static const struct column chip_columns[] = {
    COLUMN(TEXT, topo_chip, name),
    COLUMN(TEXT, topo_chip, full_name),
    COLUMN(TEXT, topo_chip, device_kind),
    COLUMN(KIND, topo_chip, kind),
    COLUMN(COUNT, topo_chip, cores_per_chip),
    COLUMN(COUNT, topo_chip, jax_devices_per_chip),
    COLUMN(REAL, topo_chip, bf16_flop_per_s),
    COLUMN(REAL, topo_chip, int8_op_per_s),
    COLUMN(REAL, topo_chip, fp8_flop_per_s),
    COLUMN(BYTES, topo_chip, hbm_bytes),
    COLUMN(REAL, topo_chip, hbm_bytes_per_s),
    COLUMN(REAL, topo_chip, xla_hbm_limit_bytes_per_device),
    COLUMN(REAL, topo_chip, xla_reserved_bytes_per_device),
    COLUMN(COUNT, topo_chip, xla_keeps_exponentials),
    COLUMN(REAL, topo_chip, xla_window_rows),
    COLUMN(REAL, topo_chip, xla_most_summed_elements),
    COLUMN(COUNT, topo_chip, xla_async_gathers),
    COLUMN(COUNT, topo_chip, xla_async_sums),
    COLUMN(COUNT, topo_chip, xla_keeps_shards),
    COLUMN(REAL, topo_chip, xla_most_logits_bytes),
    COLUMN(COUNT, topo_chip, xla_tile_rows),
    COLUMN(COUNT, topo_chip, xla_table_bytes),
    COLUMN(COUNT, topo_chip, mxu_dim),
    COLUMN(COUNT, topo_chip, link_count),
    COLUMN(REAL, topo_chip, link_oneway_bytes_per_s),
    COLUMN(REAL, topo_chip, link_nominal_bytes_per_s),
    COLUMN(TEXT, topo_chip, fabric),
    COLUMN(COUNT, topo_chip, torus_rank),
    COLUMN(COUNT, topo_chip, wrap_multiple),
    COLUMN(COUNT, topo_chip, wrap_exact),
    COLUMN(COUNT, topo_chip, pod_chips),
    COLUMN(SHAPE, topo_chip, host_shape),
    COLUMN(REAL, topo_chip, host_link_bytes_per_s),
    COLUMN(REAL, topo_chip, host_memory_bytes_per_chip),
    COLUMN(REAL, topo_chip, dcn_bytes_per_s),
    COLUMN(COUNT, topo_chip, domain_size),
    COLUMN(COUNT, topo_chip, nics_per_node),
    COLUMN(REAL, topo_chip, nic_bytes_per_s),
    COLUMN(REAL, topo_chip, collective_latency_s),
    COLUMN(REAL, topo_chip, collective_efficiency_frac),
    COLUMN(REAL, topo_chip, matmul_efficiency_frac),
    COLUMN(REAL, topo_chip, hbm_efficiency_frac),
    COLUMN(TEXT, topo_chip, assumed),
    COLUMN(TEXT, topo_chip, confidence),
    COLUMN(TEXT, topo_chip, source),
    COLUMN(TEXT, topo_chip, xla_source),
};

static const struct column slice_columns[] = {
    COLUMN(TEXT, topo_slice, accelerator_type),
    COLUMN(TEXT, topo_slice, chip),
    {"x", COUNT, offsetof(struct topo_slice, shape[0])},
    {"y", COUNT, offsetof(struct topo_slice, shape[1])},
    {"z", COUNT, offsetof(struct topo_slice, shape[2])},
    {"wrap_x", FLAG, offsetof(struct topo_slice, wrap[0])},
    {"wrap_y", FLAG, offsetof(struct topo_slice, wrap[1])},
    {"wrap_z", FLAG, offsetof(struct topo_slice, wrap[2])},
    COLUMN(COUNT, topo_slice, chip_count),
    COLUMN(COUNT, topo_slice, device_count),
    COLUMN(COUNT, topo_slice, core_count),
    COLUMN(COUNT, topo_slice, host_count),
    COLUMN(FLAG, topo_slice, twistable),
    COLUMN(TEXT, topo_slice, confidence),
    COLUMN(TEXT, topo_slice, source),
};

static const char *const kind_names[] = {"tpu", "gpu", "cpu", "local"};

/* Each table is read when it is first asked for (what names chips alone needs no slices), is written once and constant
 * from then on. Its texts live in its own arena until the process ends. */
struct part {
    struct base_arena arena;
    int count;
    enum base_status status;
    struct base_error error;
};

static struct part chip_part, slice_part;
static struct topo_chip chips_read[MOST_CHIPS];
static struct topo_slice slices_read[MOST_SLICES];

static enum base_status read_kind(const char *text, enum topo_kind *kind, struct base_error *error)
{
    for (int i = 0; i < BASE_COUNT(kind_names); i++) {
        if (strcmp(text, kind_names[i]) != 0) continue;
        *kind = (enum topo_kind)i;
        return BASE_OK;
    }
    return base_fail(error, BASE_INTERNAL, "kind: \"%s\" is none of tpu, gpu, cpu, local", text);
}

static enum base_status read_shape(const char *text, int shape[3], struct base_error *error)
{
    char extra;
    if (sscanf(text, "%dx%dx%d%c", &shape[0], &shape[1], &shape[2], &extra) == 3) return BASE_OK;
    return base_fail(error, BASE_INTERNAL, "\"%s\" is no shape such as 2x2x1", text);
}

static enum base_status read_cell(struct base_arena *arena, const struct column *column, const char *text, void *row,
                                  struct base_error *error)
{
    void *field = (char *)row + column->offset;
    int64_t whole = 0;
    double real = 0;
    switch (column->type) {
    case TEXT: *(const char **)field = base_copy(arena, text); return BASE_OK;
    case KIND: return read_kind(text, field, error);
    case SHAPE: return *text ? read_shape(text, field, error) : BASE_OK;
    case REAL:
        if (*text) BASE_TRY(base_parse_double(text, column->name, 0, 1e18, &real, error));
        *(double *)field = real;
        return BASE_OK;
    case COUNT:
    case BYTES:
    case FLAG: break;
    }
    int64_t high = column->type == BYTES ? INT64_MAX : column->type == COUNT ? INT32_MAX : 1;
    if (*text) BASE_TRY(base_parse_int(text, column->name, 0, high, &whole, error));
    if (column->type == BYTES) *(int64_t *)field = whole;
    else if (column->type == COUNT) *(int *)field = (int)whole;
    else *(bool *)field = whole == 1;
    return BASE_OK;
}

struct table {
    const char *name, *text;
    const struct column *columns;
    int column_count;
    size_t row_size_bytes;
    int row_limit;
};

static enum base_status read_row(const struct base_csv *csv, const struct table *table, const int *places, void *row,
                                 struct base_error *error)
{
    if (csv->field_count != csv->column_count)
        return base_fail(error, BASE_INTERNAL, "%d fields under a header of %d", csv->field_count, csv->column_count);
    for (int i = 0; i < table->column_count; i++)
        BASE_TRY(read_cell(csv->arena, &table->columns[i], base_csv_field(csv, places[i]), row, error));
    return BASE_OK;
}

static enum base_status read_table(const struct table *table, void *rows, struct part *part)
{
    struct base_error *error = &part->error;
    struct base_csv csv;
    int places[MOST_COLUMNS];
    BASE_TRY(base_csv_open_text(&csv, &part->arena, table->name, table->text, error));
    for (int i = 0; i < table->column_count; i++) {
        places[i] = base_csv_column(&csv, table->columns[i].name);
        if (places[i] < 0)
            return base_fail(error, BASE_INTERNAL, "%s: the column %s is missing", table->name, table->columns[i].name);
    }
    for (int n = 0;; n++) {
        bool more;
        BASE_TRY(base_csv_next(&csv, &more, error));
        if (!more) return part->count = n, BASE_OK;
        if (n == table->row_limit) return base_fail(error, BASE_INTERNAL, "%s: more than %d rows", table->name, n);
        if (read_row(&csv, table, places, (char *)rows + (size_t)n * table->row_size_bytes, error) != BASE_OK)
            return base_fail_in(error, "%s: line %lld", table->name, (long long)csv.line_number);
    }
}

static const struct table chip_table = {"topo/chips.csv",         embedded_topo_chips_csv,  chip_columns,
                                        BASE_COUNT(chip_columns), sizeof(struct topo_chip), MOST_CHIPS};
static const struct table slice_table = {"topo/slices.csv",         embedded_topo_slices_csv,  slice_columns,
                                         BASE_COUNT(slice_columns), sizeof(struct topo_slice), MOST_SLICES};

static void load(const struct table *table, void *rows, struct part *part)
{
    jmp_buf exhausted;
    part->arena.exhausted = &exhausted;
    if (setjmp(exhausted)) part->status = base_fail(&part->error, BASE_INTERNAL, "out of memory");
    else part->status = read_table(table, rows, part);
    part->arena.exhausted = NULL; /* nothing is allocated any more */
}

static void load_chips(void)
{
    load(&chip_table, chips_read, &chip_part);
    for (int i = 0; i < chip_part.count; i++) {
        struct topo_chip *chip = &chips_read[i];
        chip->chips_per_host = chip->host_shape[0] * chip->host_shape[1] * chip->host_shape[2];
    }
}

static void load_slices(void)
{
    load(&slice_table, slices_read, &slice_part);
}

static enum base_status check(const struct part *part, struct base_error *error)
{
    if (part->status == BASE_OK) return BASE_OK;
    *error = part->error;
    error->status = BASE_INTERNAL;
    return BASE_INTERNAL;
}

enum base_status topo_chips_check(struct base_error *error)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, load_chips);
    return check(&chip_part, error);
}

enum base_status topo_slices_check(struct base_error *error)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, load_slices);
    return check(&slice_part, error);
}

const struct topo_chip *topo_chips(int *count)
{
    struct base_error error;
    bool good = topo_chips_check(&error) == BASE_OK;
    *count = good ? chip_part.count : 0;
    return good ? chips_read : NULL;
}

const struct topo_slice *topo_slices(int *count)
{
    struct base_error error;
    bool good = topo_slices_check(&error) == BASE_OK;
    *count = good ? slice_part.count : 0;
    return good ? slices_read : NULL;
}
