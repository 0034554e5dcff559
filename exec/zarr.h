/* Private to exec/: arrays on disk in Zarr format 2, a directory of gzip-compressed chunks. */
#ifndef EXEC_ZARR_H
#define EXEC_ZARR_H

#include "base/base.h"
#include "model/model.h"

/* An array's .zarray. */
struct exec_zarr {
    int rank;
    int64_t shape[MODEL_MAX_RANK], chunks[MODEL_MAX_RANK];
    char separator;
    bool packed;
    char dtype[8];
};
/* BASE_INPUT: metadata are missing, invalid or unsupported; the message names file and member. A chunk is at most
 * about as large as its array, so that decompression is bounded by the expected size. */
enum base_status exec_zarr_read(struct base_arena *arena, const char *path, struct exec_zarr *out,
                                struct base_error *error);
/* Reads the chunk at a grid index into chunk_bytes at `chunk`. */
enum base_status exec_zarr_read_chunk(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                                      const int64_t *index, void *chunk, size_t chunk_bytes, struct base_error *error);
bool exec_zarr_next(const struct exec_zarr *z, int64_t *index); /* the next grid index; false: that was the last */
/* Creates the array's directory and metadata from rank, shape, chunks and dtype. */
enum base_status exec_zarr_make(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                                struct base_error *error);
enum base_status exec_zarr_write_chunk(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                                       const int64_t *index, const void *elements, size_t bytes,
                                       struct base_error *error);
int64_t exec_product(const int64_t *sizes, int rank);
const char *exec_shape_text(struct base_arena *arena, const int64_t *shape, int rank); /* "[2, 3]" */

/* gzip.c, the only user of zlib */
enum base_status exec_gunzip(const void *bytes, size_t length, void *out, size_t out_length, const char *path,
                             struct base_error *error);
enum base_status exec_gzip(struct base_arena *arena, const void *bytes, size_t length, const char **out,
                           size_t *out_length, struct base_error *error);

#endif
