/* The only user of zlib: whole buffers in gzip format. */
#include "exec/zarr.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

enum { GZIP_FORMAT = 16, LEVEL = 1 /* as T5X uses */, MEMORY_LEVEL = 8 };

enum base_status exec_gunzip(const void *bytes, size_t length, void *out, size_t out_length, const char *path,
                             struct base_error *error)
{
    z_stream stream;
    memset(&stream, 0, sizeof stream);
    if (length > UINT_MAX || out_length > UINT_MAX - 1)
        return base_fail(error, BASE_INPUT, "%s: is too large for one chunk", path);
    if (inflateInit2(&stream, MAX_WBITS + GZIP_FORMAT) != Z_OK)
        return base_fail(error, BASE_INTERNAL, "%s: zlib cannot be started", path);
    union {
        const void *from;
        Bytef *to;
    } input = {.from = bytes}; /* zlib does not write to its input */
    unsigned char beyond;
    stream.next_in = input.to;
    stream.avail_in = (uInt)length;
    stream.next_out = out;
    stream.avail_out = (uInt)out_length;
    int status = inflate(&stream, Z_FINISH);
    bool full = stream.avail_out == 0;
    if (status != Z_STREAM_END && full) { /* more data, or only the trailer? */
        stream.next_out = &beyond;
        stream.avail_out = 1;
        status = inflate(&stream, Z_FINISH);
        full = stream.avail_out == 1;
    }
    size_t got = stream.total_out, behind = stream.avail_in;
    inflateEnd(&stream);
    if (status == Z_STREAM_END && full && !behind) return BASE_OK;
    if (status == Z_STREAM_END && full)
        return base_fail(error, BASE_INPUT, "%s: has %zu bytes after its end; it is damaged", path, behind);
    if (status == Z_STREAM_END || status == Z_BUF_ERROR)
        return base_fail(error, BASE_INPUT,
                         "%s: contains %s%zu bytes, but %zu are expected; it is truncated or of another shape", path,
                         full ? "" : "other than ", got, out_length);
    return base_fail(error, BASE_INPUT, "%s: is no gzip file, or is damaged", path);
}

enum base_status exec_gzip(struct base_arena *arena, const void *bytes, size_t length, const char **out,
                           size_t *out_length, struct base_error *error)
{
    z_stream stream;
    memset(&stream, 0, sizeof stream);
    if (length > UINT_MAX)
        return base_fail(error, BASE_INPUT, "an array of %zu bytes is too large for one chunk", length);
    if (deflateInit2(&stream, LEVEL, Z_DEFLATED, MAX_WBITS + GZIP_FORMAT, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return base_fail(error, BASE_INTERNAL, "zlib cannot be started");
    uLong bound = deflateBound(&stream, (uLong)length);
    union {
        const void *from;
        Bytef *to;
    } input = {.from = bytes};
    char *packed = base_alloc(arena, bound, 1);
    stream.next_in = input.to;
    stream.avail_in = (uInt)length;
    stream.next_out = (Bytef *)packed;
    stream.avail_out = (uInt)bound;
    int status = deflate(&stream, Z_FINISH);
    *out_length = stream.total_out;
    deflateEnd(&stream);
    if (status != Z_STREAM_END) return base_fail(error, BASE_INTERNAL, "zlib cannot pack %zu bytes", length);
    *out = packed;
    return BASE_OK;
}
