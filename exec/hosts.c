/* The hosts of a run and their matrix kernels: if kernels differ, so do last bits. */
#include "exec/ranks.h"

#include <string.h>
#include <unistd.h>

static struct exec_host own_host(const char *kernel)
{
    struct exec_host host = {.rank_count = 1};
    if (gethostname(host.name, sizeof host.name - 1) != 0) snprintf(host.name, sizeof host.name, "unknown");
    snprintf(host.kernel, sizeof host.kernel, "%s", kernel);
    return host;
}

static void add(struct exec_host *hosts, int *count, const struct exec_host *host)
{
    for (int i = 0; i < *count; i++) {
        if (strcmp(hosts[i].name, host->name) != 0 || strcmp(hosts[i].kernel, host->kernel) != 0) continue;
        hosts[i].rank_count++;
        return;
    }
    hosts[(*count)++] = *host;
}

static void warn_of_difference(struct base_arena *arena, const struct exec_host *hosts, int count,
                               void (*warn)(const char *text))
{
    for (int i = 1; i < count && warn; i++) {
        if (!strcmp(hosts[i].kernel, hosts[0].kernel)) continue;
        warn(base_print(arena,
                        "hosts compute with different kernels: %s with %s, %s with %s; the last bits of losses depend "
                        "on this mix; set ONEDNN_MAX_CPU_ISA and OPENBLAS_CORETYPE on all hosts to make them equal",
                        hosts[0].name, hosts[0].kernel, hosts[i].name, hosts[i].kernel));
        return;
    }
}

void exec_meet_hosts(struct base_arena *arena, const struct exec_request *request, const char *kernel,
                     struct exec_result *out)
{
    const struct exec_transport *t = request->transport;
    struct exec_host host = own_host(kernel);
    int ranks = t ? t->rank_count : 1;
    if (exec_rank(t) != 0) {
        exec_swap(t, 0, &host, sizeof host, 0, NULL, 0);
        return;
    }
    struct exec_host *hosts = base_new(arena, struct exec_host, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        if (rank > 0) exec_swap(t, rank, NULL, 0, rank, &host, sizeof host);
        add(hosts, &out->host_count, &host);
    }
    out->hosts = hosts;
    warn_of_difference(arena, hosts, out->host_count, request->warn);
}
