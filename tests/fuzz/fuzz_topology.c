/* Topologies: what is accepted is one piece of hardware, says the same again, and its meshes hold each device once. */
#include "tests/fuzz/fuzz.h"

enum { MOST_MESH_DEVICES = 4096 };

static void check_counts(const struct topo_topology *t)
{
    int64_t devices = t->slice_count;
    for (int i = 0; i < 4; i++) {
        FUZZ_CHECK(t->bounds[i] > 0 && t->host[i] > 0);
        devices *= t->bounds[i];
    }
    FUZZ_CHECK(devices == t->device_count && t->devices_per_slice * t->slice_count == t->device_count);
    for (int i = 0; i < t->chip.torus_rank; i++) FUZZ_CHECK(t->kind != TOPO_TPU || t->bounds[i] % t->host[i] == 0);
}

static int by_coordinates(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(int[5]));
}

/* The submesh or the number of partitions comes from the input's own bytes. */
static struct topo_mesh_request request_of(const char *text, size_t length)
{
    struct topo_mesh_request request = {.tile_by_host_if_needed = length % 2 == 0};
    struct base_random random;
    uint64_t seed = length;
    for (size_t i = 0; i < length; i++) seed = seed * 31 + (unsigned char)text[i];
    base_random_seed(&random, seed);
    if (base_random_below(&random, 2)) request.num_partitions = INT64_C(1) << base_random_below(&random, 8);
    else request.submesh_count = 1 + (int)base_random_below(&random, 5);
    for (int i = 0; i < request.submesh_count; i++) request.submesh[i] = 1 << base_random_below(&random, 4);
    return request;
}

static void check_mesh(struct base_arena *arena, const struct topo_topology *topology,
                       const struct topo_mesh_request *request)
{
    struct topo_mesh mesh;
    struct base_error error = {0};
    if (topology->device_count > MOST_MESH_DEVICES) return;
    if (topo_mesh_build(arena, topology, request, TOPO_WITH_DEVICES, &mesh, &error) != BASE_OK) {
        FUZZ_CHECK(error.status == BASE_INPUT && *error.text);
        return;
    }
    int64_t product = 1;
    for (int i = 0; i < mesh.axes.count; i++) product *= mesh.axes.sizes[i];
    FUZZ_CHECK(product == mesh.device_count && mesh.device_count == topology->device_count);
    qsort(mesh.devices, (size_t)mesh.device_count, sizeof *mesh.devices, by_coordinates);
    for (int i = 1; i < mesh.device_count; i++) FUZZ_CHECK(by_coordinates(mesh.devices[i - 1], mesh.devices[i]) != 0);
}

static void check(struct base_arena *arena, const char *text, size_t length)
{
    struct topo_topology topology, again;
    struct base_error error = {0};
    /* A document is read from a file; other files than that one are none of the fuzzer's business, nor are options. */
    const char *name = *text == '{' ? base_print(arena, "@%s", fuzz_file(text, length)) : text;
    if (*text == '@' || *text == '-') return;
    if (topo_parse(arena, name, &topology, &error) != BASE_OK) {
        FUZZ_CHECK(error.status == BASE_INPUT && *error.text);
        return;
    }
    check_counts(&topology);
    FUZZ_CHECK(topo_parse(arena, name, &again, &error) == BASE_OK && !memcmp(&topology, &again, sizeof topology));
    struct topo_mesh_request request = request_of(text, length);
    check_mesh(arena, &topology, &request);
    const char *arguments[] = {name, "--json"};
    const char *document = fuzz_command(arena, "topology", 2, arguments, &error);
    FUZZ_CHECK(document);
    fuzz_parse(arena, document);
    FUZZ_CHECK(fuzz_command(arena, "topology", 1, arguments, &error));
}

FUZZ_TARGET(check, 8000)
