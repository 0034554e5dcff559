/* Parses a TOPOLOGY: an accelerator type, a generation and shape, GPU or CPU nodes, ranks of this machine, or a file
 * with the same keys. */
#include "topo/topology_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_DIM = 1 << 16, MOST_DEVICES = 1 << 20, LONGEST_SIDE = 4096, LARGEST_FILE_BYTES = 1 << 20, SHOWN = 80 };

#define TWISTED "_twisted"

/* ---- shapes ---- */

/* "4x8x8" -> {4, 8, 8}; between 1 and limit numbers. */
static enum base_status parse_box(const char *text, const char *what, int limit, int *box, int *count,
                                  struct base_error *error)
{
    char list[64];
    int64_t numbers[4];
    size_t length = strlen(text);
    if (length == 0 || length >= sizeof list || strspn(text, "0123456789x") != length)
        return base_fail(error, BASE_INPUT, "%s: \"%.40s\" is no shape; use numbers joined by x, such as 4x8x8", what,
                         text);
    int found = 1;
    for (size_t i = 0; i < length; i++) found += text[i] == 'x';
    if (found > limit)
        return base_fail(error, BASE_INPUT, "%s: %s has %d numbers; use at most %d", what, text, found, limit);
    for (size_t i = 0; i <= length; i++) list[i] = text[i] == 'x' ? ',' : text[i];
    BASE_TRY(base_parse_ints(list, what, 1, LONGEST_DIM, limit, numbers, count, error));
    for (int i = 0; i < *count; i++) box[i] = (int)numbers[i];
    return BASE_OK;
}

/* Applies the generation's wraparound rule from the vendor's shape table. */
static void set_wraps(struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    bool multiple = chip->wrap_multiple > 0;
    for (int i = 0; i < chip->torus_rank; i++) multiple = multiple && topology->bounds[i] % chip->wrap_multiple == 0;
    for (int i = 0; i < chip->torus_rank; i++)
        topology->wrap[i] = multiple || (chip->wrap_exact > 0 && topology->bounds[i] == chip->wrap_exact);
}

static void set_slice(struct topo_topology *topology, const int shape[3], int devices_per_chip)
{
    const int *host = topology->chip.host_shape;
    topology->chip.jax_devices_per_chip = devices_per_chip;
    topology->bounds_count = 4;
    for (int i = 0; i < 3; i++) {
        topology->bounds[i] = shape[i];
        topology->host[i] = shape[i] < host[i] ? shape[i] : host[i];
    }
    topology->bounds[3] = topology->host[3] = devices_per_chip;
    set_wraps(topology);
}

static enum base_status tpu_shape(struct topo_topology *topology, const char *text, struct base_error *error)
{
    const struct topo_chip *chip = &topology->chip;
    int numbers[4] = {1, 1, 1, chip->jax_devices_per_chip}, count;
    BASE_TRY(parse_box(text, "shape", 4, numbers, &count, error));
    if (count == 1)
        return base_fail(error, BASE_INPUT,
                         "a slice has two or three dimensions of chips, and \"%s\" is one; use %s:%sx1", text,
                         chip->name, text);
    if (chip->torus_rank == 2 && numbers[2] != 1)
        return base_fail(error, BASE_INPUT, "%s is a plane of chips: its third dimension is 1, not %d; use %dx%d",
                         chip->full_name, numbers[2], numbers[0], numbers[1]);
    if (numbers[3] > chip->cores_per_chip)
        return base_fail(error, BASE_INPUT,
                         "the fourth number is how many cores of a chip JAX sees, and %s has %d; use %dx%dx%d",
                         chip->full_name, chip->cores_per_chip, numbers[0], numbers[1], numbers[2]);
    set_slice(topology, numbers, numbers[3]);
    return BASE_OK;
}

int topo_hosts_of_node(const struct topo_topology *topology)
{
    const int of_host = topology->chip.chips_per_host;
    return of_host > 0 ? (topology->bounds[1] + of_host - 1) / of_host : 1;
}

static enum base_status node_shape(struct topo_topology *topology, const char *text, struct base_error *error)
{
    bool gpu = topology->kind == TOPO_GPU;
    int numbers[2], count;
    BASE_TRY(parse_box(text, "shape", 2, numbers, &count, error));
    if (count != 2)
        return base_fail(error, BASE_INPUT, "\"%s\" is one number; %s x %s are needed, such as %s:1x%s", text,
                         gpu ? "nodes" : "processes", gpu ? "GPUs of one" : "devices of one", topology->chip.name,
                         text);
    memcpy(topology->bounds, (int[]){numbers[0], numbers[1], 1, 1}, sizeof topology->bounds);
    memcpy(topology->host, (int[]){1, numbers[1], 1, 1}, sizeof topology->host);
    topology->bounds_count = 2;
    topology->chip.nics_per_node *= topo_hosts_of_node(topology);
    return BASE_OK;
}

/* local:N is one host whose ranks are all connected; local:AxB and local:AxBxC are tori of ranks. A ring of two has
 * one link, so it needs no wraparound. */
static enum base_status local_shape(struct topo_topology *topology, const char *text, struct base_error *error)
{
    int numbers[3] = {1, 1, 1}, count;
    BASE_TRY(parse_box(text, "shape", 3, numbers, &count, error));
    bool torus = count > 1;
    int x = torus ? numbers[0] : 1, y = torus ? numbers[1] : numbers[0];
    memcpy(topology->bounds, (int[]){x, y, numbers[2], 1}, sizeof topology->bounds);
    memcpy(topology->host, topology->bounds, sizeof topology->host);
    topology->bounds_count = torus ? count : 2;
    topology->chip.torus_rank = torus ? count : 0;
    for (int d = 0; d < 3; d++) topology->wrap[d] = torus && topology->bounds[d] > 2;
    return BASE_OK;
}

static enum base_status parse_shape(struct topo_topology *topology, const char *text, struct base_error *error)
{
    static enum base_status (*const shapes[])(struct topo_topology *, const char *, struct base_error *) = {
        [TOPO_TPU] = tpu_shape, [TOPO_GPU] = node_shape, [TOPO_CPU] = node_shape, [TOPO_LOCAL] = local_shape};
    return shapes[topology->kind](topology, text, error);
}

/* ---- names ---- */

/* Example size of a node: its NVLink domain, or eight if each GPU is its own domain. */
static int gpus_of_node(const struct topo_chip *chip)
{
    return chip->domain_size > 1 ? chip->domain_size : 8;
}

/* Number of such nodes for this many GPUs. */
static int gpu_nodes(const struct topo_chip *chip, const char *digits)
{
    const int most = 1 << 20, gpus = strlen(digits) < 8 ? atoi(digits) : most;
    return gpus < gpus_of_node(chip) ? 1 : gpus / gpus_of_node(chip);
}

/* "v6e-8x4", "h100 16x8": the same name with a colon, if that is a topology; otherwise NULL. */
static const char *with_colon(const char *name, char meant[SHOWN])
{
    const char *shape = name + strlen(name);
    while (shape > name && strchr("0123456789x", shape[-1])) shape--;
    const char *end = shape;
    while (end > name && strchr("-_ /", end[-1])) end--;
    const struct topo_chip *chip = topo_chip_named(name, (size_t)(end - name));
    struct topo_topology tried = {.kind = chip ? chip->kind : TOPO_CPU};
    struct base_error ignored;
    if (!chip || !(*shape && (strchr(shape, 'x') || chip->kind == TOPO_LOCAL))) return NULL;
    tried.chip = *chip;
    if (parse_shape(&tried, shape, &ignored) != BASE_OK) return NULL;
    snprintf(meant, SHOWN, "%s:%s", chip->name, shape);
    return meant;
}

static enum base_status bare_name(struct base_arena *arena, struct topo_topology *topology, const char *name,
                                  struct base_error *error)
{
    char meant[SHOWN];
    const struct topo_slice *slice = topo_slice_named(name);
    const struct topo_chip *chip =
        slice ? topo_chip_named(slice->chip, strlen(slice->chip)) : topo_chip_named(name, strlen(name));
    if (chip && !slice && chip->kind == TOPO_GPU)
        return base_fail(error, BASE_INPUT, "names a chip, not how many; use %s:1x%d", name, gpus_of_node(chip));
    if (chip && !slice) {
        static const char *const examples[] = {[TOPO_TPU] = "2x2", [TOPO_CPU] = "4x2", [TOPO_LOCAL] = "4"};
        return base_fail(error, BASE_INPUT, "names a chip, not how many; use %s:%s", name, examples[chip->kind]);
    }
    const char *dash = strrchr(name, '-');
    if (!slice && dash && dash[1] && strspn(dash + 1, "0123456789") == strlen(dash + 1))
        chip = topo_chip_named(name, (size_t)(dash - name));
    if (!slice && chip && chip->kind == TOPO_TPU) return topo_refuse_size(chip, dash + 1, error);
    if (!slice && chip && chip->kind == TOPO_GPU)
        return base_fail(error, BASE_INPUT, "GPUs are named by nodes and the GPUs of each; use %s:%dx%d", chip->name,
                         gpu_nodes(chip, dash + 1), gpus_of_node(chip));
    if (!slice && with_colon(name, meant))
        return base_fail(error, BASE_INPUT, "a shape is needed after the colon; use %s", meant);
    if (!slice || !chip) return topo_refuse_counted(arena, name, error);
    topology->kind = chip->kind;
    topology->chip = *chip;
    set_slice(topology, slice->shape, chip->jax_devices_per_chip);
    memcpy(topology->wrap, slice->wrap, sizeof topology->wrap);
    return BASE_OK;
}

/* Twisted tori exist as n x n x 2n and n x 2n x 2n with n at least 4 (Cloud TPU documentation, v4 and v5p). Wrapping
 * around a dimension of n chips also moves n chips along those of 2n. */
static enum base_status twist(struct topo_topology *topology, struct base_error *error)
{
    const int *b = topology->bounds, n = b[0];
    bool exists = topology->kind == TOPO_TPU && topology->chip.torus_rank == 3 && n >= 4 &&
                  (b[1] == n || b[1] == 2 * n) && b[2] == 2 * n;
    if (!exists)
        return base_fail(
            error, BASE_INPUT,
            "has no twisted form: those are n x n x 2n and n x 2n x 2n of three-dimensional tori, n at least 4");
    topology->twisted = true;
    for (int d = 0; d < 3; d++) {
        topology->wrap[d] = true;
        for (int e = 0; e < 3; e++) topology->twist[d][e] = b[d] == n && b[e] == 2 * n ? n : 0;
    }
    return BASE_OK;
}

/* NAME or NAME:SHAPE, optionally with _twisted. */
static enum base_status parse_name(struct base_arena *arena, struct topo_topology *topology, char *name,
                                   struct base_error *error)
{
    topo_as_catalogued(name);
    size_t length = strlen(name), tail = strlen(TWISTED);
    bool twisted = length > tail && !strcmp(name + length - tail, TWISTED);
    if (twisted) name[length - tail] = '\0';
    char *colon = strchr(name, ':');
    if (!colon) {
        BASE_TRY(bare_name(arena, topology, name, error));
        return twisted ? twist(topology, error) : BASE_OK;
    }
    *colon = '\0';
    const struct topo_chip *chip = topo_chip_named(name, strlen(name));
    if (!chip) return topo_refuse_name(name, false, error);
    topology->kind = chip->kind;
    topology->chip = *chip;
    BASE_TRY(parse_shape(topology, colon + 1, error));
    return twisted ? twist(topology, error) : BASE_OK;
}

/* ---- @key=value ---- */

enum value_type { HOST, WRAP, MEMORY, NUMBER, GBPS, MICROSECONDS };
enum { ON_TPU = 1 << TOPO_TPU, ON_GPU = 1 << TOPO_GPU, ON_ALL = ON_TPU | ON_GPU | 1 << TOPO_CPU | 1 << TOPO_LOCAL };

struct override {
    const char *key;
    enum value_type type;
    int kinds;
    size_t offset;
};

static const struct override overrides[] = {
    {"host", HOST, ON_TPU, 0},         /* chips of one host: 2x4 */
    {"wrap", WRAP, ON_TPU, 0},         /* dimensions that wrap around: x+y, or none */
    {"memory_gib", MEMORY, ON_ALL, 0}, /* per chip, GPU or rank */
    {"slices", NUMBER, ON_TPU, offsetof(struct topo_topology, slice_count)},
    {"nics", NUMBER, ON_GPU, offsetof(struct topo_topology, chip.nics_per_node)},
    {"domain", NUMBER, ON_GPU, offsetof(struct topo_topology, chip.domain_size)}, /* GPUs in an NVLink domain */
    {"nic_gbps", GBPS, ON_GPU, offsetof(struct topo_topology, chip.nic_bytes_per_s)},
    {"nic_latency_us", MICROSECONDS, ON_GPU, offsetof(struct topo_topology, chip.nic_latency_s)},
    {"dcn_gbps", GBPS, ON_TPU, offsetof(struct topo_topology, chip.dcn_bytes_per_s)},
    {"link_gbps", GBPS, ON_TPU | ON_GPU,
     offsetof(struct topo_topology, chip.link_oneway_bytes_per_s)}, /* usable, one direction */
};

static enum base_status set_host(struct topo_topology *topology, const char *value, struct base_error *error)
{
    int box[3] = {1, 1, 1}, count;
    BASE_TRY(parse_box(value, "host", 3, box, &count, error));
    memcpy(topology->host, box, sizeof box);
    return BASE_OK;
}

static enum base_status set_wrap(struct topo_topology *topology, const char *value, struct base_error *error)
{
    bool wrap[3] = {false, false, false}, good = *value != '\0';
    for (const char *at = strcmp(value, "none") ? value : ""; good && *at; at += at[1] ? 2 : 1) {
        int axis = *at - 'x';
        good = axis >= 0 && axis < topology->chip.torus_rank && (!at[1] || (at[1] == '+' && at[2]));
        if (good) wrap[axis] = true;
    }
    if (!good)
        return base_fail(error, BASE_INPUT,
                         "wrap: \"%.40s\" is not understood; use dimensions joined by +, such as x+y, or none", value);
    memcpy(topology->wrap, wrap, sizeof wrap);
    return BASE_OK;
}

/* XLA's own reserve stays; the limit for programs follows the memory. */
static enum base_status set_memory(struct topo_topology *topology, const char *value, struct base_error *error)
{
    struct topo_chip *chip = &topology->chip;
    double gib;
    if (*value && strchr("bB", value[strlen(value) - 1])) { /* 80GB, 40 GiB */
        BASE_TRY(base_parse_bytes(value, "memory_gib", INT64_C(1) << 50, &chip->hbm_bytes, error));
        if (chip->hbm_bytes < 1 << 20) return base_fail(error, BASE_INPUT, "memory_gib: %s is too little", value);
    } else {
        BASE_TRY(base_parse_double(value, "memory_gib", 1.0 / 1024, 1 << 20, &gib, error));
        chip->hbm_bytes = (int64_t)(gib * 1073741824.0);
    }
    double rest = (double)chip->hbm_bytes / chip->jax_devices_per_chip - chip->xla_reserved_bytes_per_device;
    if (chip->xla_hbm_limit_bytes_per_device > 0) chip->xla_hbm_limit_bytes_per_device = rest > 0 ? rest : 0;
    return BASE_OK;
}

static enum base_status unknown_key(const struct topo_topology *topology, const char *key, struct base_error *error)
{
    const char *known[BASE_COUNT(overrides)];
    int count = 0;
    char what[80];
    for (int i = 0; i < BASE_COUNT(overrides); i++)
        if (overrides[i].kinds & 1 << topology->kind) known[count++] = overrides[i].key;
    snprintf(what, sizeof what, "key of %.50s", topology->chip.full_name);
    return base_fail_unknown(error, BASE_INPUT, what, key, known, count);
}

static enum base_status apply_override(struct topo_topology *topology, const char *key, const char *value,
                                       struct base_error *error)
{
    const struct override *found = NULL;
    for (int i = 0; i < BASE_COUNT(overrides); i++)
        if (!strcmp(overrides[i].key, key) && (overrides[i].kinds & 1 << topology->kind)) found = &overrides[i];
    if (!found) return unknown_key(topology, key, error);
    char *field = (char *)topology + found->offset;
    int64_t whole;
    double number = 0;
    switch (found->type) {
    case HOST: return set_host(topology, value, error);
    case WRAP: return set_wrap(topology, value, error);
    case MEMORY: return set_memory(topology, value, error);
    case NUMBER:
        BASE_TRY(base_parse_int(value, key, 1, LONGEST_DIM, &whole, error));
        *(int *)field = (int)whole;
        return BASE_OK;
    case MICROSECONDS: BASE_TRY(base_parse_double(value, key, 0, 1e6, &number, error)); break;
    case GBPS: BASE_TRY(base_parse_double(value, key, 1e-3, 1e6, &number, error)); break;
    }
    *(double *)field = found->type == GBPS ? number * 1e9 / 8 : number * 1e-6;
    return BASE_OK;
}

/* "key=value,key=value"; parsed in place. */
static enum base_status apply_overrides(struct topo_topology *topology, char *list, struct base_error *error)
{
    unsigned given = 0;
    for (char *item = list, *next; item; item = next) {
        char *comma = strchr(item, ','), *equals = strchr(item, '=');
        next = comma ? comma + 1 : NULL;
        if (comma) *comma = '\0';
        if (!equals || (comma && equals > comma))
            return base_fail(error, BASE_INPUT, "\"@%.40s\" has no value; use @key=value,key=value", item);
        *equals = '\0';
        for (int i = 0; i < BASE_COUNT(overrides); i++) {
            if (strcmp(overrides[i].key, item) != 0) continue;
            if (given >> i & 1u) return base_fail(error, BASE_INPUT, "%s: is a duplicate; keep one", item);
            given |= 1u << i;
        }
        BASE_TRY(apply_override(topology, item, equals + 1, error));
    }
    return BASE_OK;
}

/* ---- entry points ---- */

/* Hosts joined by NVLink form one node, however they are written: 18 hosts of four GB200 are a rack of 72. Hosts
 * beyond one domain spread evenly over as few domains as possible, as schedulers place jobs: 128 hosts are 8 nodes
 * of 64. */
static void join_hosts(struct topo_topology *topology)
{
    const int hosts = topology->bounds[0], of_host = topology->bounds[1], domain = topology->chip.domain_size,
              most = of_host > 0 ? domain / of_host : 1;
    if (topology->kind != TOPO_GPU || topology->chip.chips_per_host != of_host || most < 2) return;
    int nodes = (hosts - 1) / most + 1;
    while (hosts % nodes) nodes++;
    const int joined = hosts / nodes;
    topology->bounds[0] = nodes, topology->bounds[1] = topology->host[1] = joined * of_host;
    topology->chip.nics_per_node *= joined;
}

const char *topo_unjoined_hosts(struct base_arena *arena, const struct topo_topology *topology)
{
    const int of_host = topology->chip.chips_per_host, domain = topology->chip.domain_size,
              most = of_host > 0 ? domain / of_host : 1, nodes = topology->bounds[0], of_node = topology->bounds[1];
    if (topology->kind != TOPO_GPU || most < 2 || nodes < 2 || of_node % of_host || 2 * of_node > domain) return NULL;
    const int hosts = nodes * (of_node / of_host), racks = (hosts - 1) / most + 1;
    if (hosts / racks < 2) return NULL;
    return base_print(
        arena,
        "NVLink joins up to %d GPUs of %s, and %d hosts do not divide evenly among such domains: each %d GPUs "
        "are modelled as a node; use %d hosts",
        domain, topology->chip.name, hosts, of_node, hosts / racks * racks);
}

static enum base_status finish(struct topo_topology *topology, struct base_error *error)
{
    join_hosts(topology);
    int64_t devices = 1;
    int *b = topology->bounds, *h = topology->host;
    for (int i = 0; i < 4 && devices <= MOST_DEVICES; i++) devices *= b[i];
    if (devices <= MOST_DEVICES) devices *= topology->slice_count;
    if (devices > MOST_DEVICES)
        return base_fail(error, BASE_INPUT, "has more than %d devices; use a smaller shape", MOST_DEVICES);
    /* The work along a dimension grows with its square. */
    for (int i = 0; i < 3; i++)
        if (topology->kind == TOPO_TPU && b[i] > LONGEST_SIDE)
            return base_fail(error, BASE_INPUT, "has a side of %d chips; %d is the longest that is modelled", b[i],
                             LONGEST_SIDE);
    /* T5X asserts that hosts tile the slice, so other shapes are not slices. */
    for (int i = 0; topology->kind == TOPO_TPU && i < 3; i++)
        if (b[i] % h[i] != 0)
            return base_fail(error, BASE_INPUT,
                             "hosts of %dx%dx%d chips do not tile %dx%dx%d: %d is no multiple of %d along %c; use "
                             "another shape or @host=%dx%dx%d",
                             h[0], h[1], h[2], b[0], b[1], b[2], b[i], h[i], "xyz"[i], i == 0 ? 1 : h[0],
                             i == 1 ? 1 : h[1], i == 2 ? 1 : h[2]);
    topology->device_count = (int)devices;
    topology->devices_per_slice = (int)(devices / topology->slice_count);
    return BASE_OK;
}

/* NAME[:SHAPE][@key=value,…]: everything but finish(). */
static enum base_status parse_words(struct base_arena *arena, const char *text, struct topo_topology *topology,
                                    struct base_error *error)
{
    char words[sizeof topology->name];
    if (!*text)
        return base_fail(error, BASE_INPUT, "the name is empty; use v4-512, v4:4x8x8, a100-80g:32x8 or local:4");
    if (strlen(text) >= sizeof words)
        return base_fail(error, BASE_INPUT, "is longer than %zu bytes; use a file, @topology.json", sizeof words - 1);
    memcpy(words, text, strlen(text) + 1);
    char *at = strchr(words, '@');
    if (at) *at = '\0';
    topology->slice_count = 1;
    BASE_TRY(parse_name(arena, topology, words, error));
    return at ? apply_overrides(topology, at + 1, error) : BASE_OK;
}

/* A value of a topology file as on the command line: 2, "2x4" or [2, 4]. */
static enum base_status value_text(struct base_arena *arena, const struct base_json *value, const char **out,
                                   struct base_error *error)
{
    if (value->kind == BASE_JSON_STRING) return *out = value->string, BASE_OK;
    if (value->kind == BASE_JSON_NUMBER) return *out = base_print(arena, "%.15g", value->number), BASE_OK;
    if (value->kind != BASE_JSON_ARRAY || value->count == 0)
        return base_fail(error, BASE_INPUT, "%s: is %s; a number, a string or a list of numbers is needed", value->key,
                         base_json_kind_name(value->kind));
    struct base_text text = {.arena = arena};
    for (const struct base_json *item = value->child; item; item = item->next) {
        int64_t number;
        BASE_TRY(base_json_int(item, value->key, 1, LONGEST_DIM, &number, error));
        base_putf(&text, "%s%lld", item == value->child ? "" : "x", (long long)number);
    }
    *out = text.data;
    return BASE_OK;
}

static enum base_status parse_object(struct base_arena *arena, const struct base_json *object,
                                     struct topo_topology *topology, struct base_error *error)
{
    const struct base_json *name = base_json_get(object, "topology");
    if (!name || name->kind != BASE_JSON_STRING || *name->string == '@')
        return base_fail(error, BASE_INPUT,
                         "topology: a name is needed, such as {\"topology\": \"v4:2x2x4\", \"slices\": 2}");
    if (parse_words(arena, topo_spelled(arena, name->string), topology, error) != BASE_OK)
        return base_fail_in(error, "topology: %.60s", name->string);
    for (const struct base_json *member = object->child; member; member = member->next) {
        const char *value = NULL;
        if (member == name) continue;
        BASE_TRY(value_text(arena, member, &value, error));
        BASE_TRY(apply_override(topology, member->key, value, error));
    }
    return finish(topology, error);
}

static enum base_status parse_file(struct base_arena *arena, const char *path, struct topo_topology *topology,
                                   struct base_error *error)
{
    const struct base_json *document;
    BASE_TRY(base_json_read_file(arena, path, LARGEST_FILE_BYTES, &document, error));
    return parse_object(arena, document, topology, error) == BASE_OK ? BASE_OK : base_fail_in(error, "%s", path);
}

enum base_status topo_parse(struct base_arena *arena, const char *text, struct topo_topology *out,
                            struct base_error *error)
{
    struct topo_topology topology = {0};
    text = topo_spelled(arena, text);
    if (*text == '@') {
        BASE_TRY(parse_file(arena, text + 1, &topology, error));
    } else {
        enum base_status status = parse_words(arena, text, &topology, error);
        if (status == BASE_OK) status = finish(&topology, error);
        if (status != BASE_OK) return base_fail_in(error, "topology: %.60s", text);
    }
    size_t length = strlen(text);
    memcpy(topology.name, text, length < sizeof topology.name ? length : sizeof topology.name - 1);
    *out = topology;
    return BASE_OK;
}
