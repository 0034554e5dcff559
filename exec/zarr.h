/* Private to exec/: one array on disk as Zarr (format 2) has it, a directory of chunks packed with gzip. */
#ifndef EXEC_ZARR_H
#define EXEC_ZARR_H

#include "base/base.h"
#include "model/model.h"

/* An array as its .zarray says. */
struct exec_zarr {
    int rank;
    int64_t shape[MODEL_MAX_RANK], chunks[MODEL_MAX_RANK];
    char separator;
    bool packed;
    char dtype[8];
};
/* BASE_INPUT: the metadata are not there, are not Zarr's, or say what is not read here; names file and member. A chunk
 * is at most about as large as its array, so that what is unpacked is bounded by what is expected. */
enum base_status exec_zarr_read(struct base_arena *arena, const char *path, struct exec_zarr *out,
                                struct base_error *error);
/* The chunk at that place of the grid into chunk_bytes at `chunk`. */
enum base_status exec_zarr_read_chunk(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                                      const int64_t *index, void *chunk, size_t chunk_bytes, struct base_error *error);
bool exec_zarr_next(const struct exec_zarr *z, int64_t *index); /* the next of the grid; false: that was the last */
/* Makes the array's directory and its metadata: rank, shape, chunks and dtype count. */
enum base_status exec_zarr_make(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                                struct base_error *error);
enum base_status exec_zarr_write_chunk(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                                       const int64_t *index, const void *elements, size_t bytes,
                                       struct base_error *error);
int64_t exec_product(const int64_t *sizes, int rank);
const char *exec_shape_text(struct base_arena *arena, const int64_t *shape, int rank); /* "[2, 3]" */

/* gzip.c, the door to zlib */
enum base_status exec_gunzip(const void *bytes, size_t length, void *out, size_t out_length, const char *path,
                             struct base_error *error);
enum base_status exec_gzip(struct base_arena *arena, const void *bytes, size_t length, const char **out,
                           size_t *out_length, struct base_error *error);

#endif
