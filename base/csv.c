/* Reads RFC 4180 tables row by row from a file or a text. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST_ROW_BYTES = 1 << 20, MOST_COLUMNS = 4096, WINDOW_BYTES = 1 << 16 };

/* False at the end or on a read error. A short read from a pipe is fine. */
static bool refill(struct base_csv *csv)
{
    if (csv->file < 0) return false;
    if (!csv->window) csv->window = base_reserve(csv->arena, WINDOW_BYTES + 1, 1);
    const ssize_t length = read(csv->file, csv->window, WINDOW_BYTES);
    if (length < 0) csv->failed = errno;
    csv->text = csv->window;
    csv->text_end = csv->window + (length > 0 ? length : 0);
    csv->window[csv->text_end - csv->text] = 0;
    return length > 0;
}

static int next_byte(struct base_csv *csv)
{
    return csv->text < csv->text_end || refill(csv) ? (unsigned char)*csv->text++ : EOF;
}

static void grow(struct base_csv *csv)
{
    size_t capacity = csv->buffer_capacity ? 2 * csv->buffer_capacity : 4096;
    char *buffer = base_reserve(csv->arena, capacity, 1);
    if (csv->buffer_length) memcpy(buffer, csv->buffer, csv->buffer_length);
    csv->buffer = buffer;
    csv->buffer_capacity = capacity;
}

static inline void push(struct base_csv *csv, char byte)
{
    if (csv->buffer_length == csv->buffer_capacity) grow(csv);
    csv->buffer[csv->buffer_length++] = byte;
}

/* Copies a run of ordinary bytes at once. The first bytes of a header go one by one, since they may be a byte order
 * mark. */
static void push_run(struct base_csv *csv, const char *ends)
{
    if ((!csv->names && csv->buffer_length < 3) || csv->buffer_length > LONGEST_ROW_BYTES) return;
    const size_t room = csv->buffer_capacity - csv->buffer_length, rest = LONGEST_ROW_BYTES - csv->buffer_length,
                 most = rest < room ? rest : room; /* push() handles the byte after it */
    size_t length = strcspn(csv->text, ends);
    if (length > most) length = most;
    memcpy(csv->buffer + csv->buffer_length, csv->text, length);
    csv->buffer_length += length;
    csv->text += length;
}

static enum base_status bad_row(const struct base_csv *csv, struct base_error *error, const char *what)
{
    return base_fail(error, BASE_INPUT, "%s: line %lld: %s", csv->path, (long long)csv->line_number, what);
}

/* Spreadsheets write a byte order mark before the header. */
static bool ends_byte_order_mark(const struct base_csv *csv, int byte)
{
    return byte == 0xbf && !csv->names && csv->buffer_length == 2 && !memcmp(csv->buffer, "\xef\xbb", 2);
}

static void end_field(struct base_csv *csv, int *fields)
{
    push(csv, '\0');
    ++*fields;
}

/* Reads one record into the buffer, fields separated by NUL. *fields is 0 at the end of the file. */
static enum base_status read_record(struct base_csv *csv, int *fields, struct base_error *error)
{
    enum { AT_START, PLAIN, QUOTED, AFTER_QUOTE } state = AT_START; /* within the current field */
    bool any = false;
    csv->buffer_length = 0;
    csv->line_number = csv->next_line_number;
    *fields = 0;
    for (int byte; (byte = next_byte(csv)) != EOF;) {
        if (byte == 0) return bad_row(csv, error, "a NUL byte; text is needed");
        if (csv->buffer_length > LONGEST_ROW_BYTES)
            return bad_row(csv, error, "longer than 1 MiB; is a quote missing?");
        if (byte == '\r' && state != QUOTED && (byte = next_byte(csv)) != '\n')
            return bad_row(csv, error, "a carriage return within the line; lines end in LF or CRLF");
        if (byte == '\n') csv->next_line_number++;
        if (state == QUOTED && byte != '"') {
            push(csv, (char)byte);
            push_run(csv, "\"\n");
        } else if (state == QUOTED) {
            state = AFTER_QUOTE;
        } else if (byte == '\n' && any) {
            end_field(csv, fields);
            return BASE_OK;
        } else if (byte == '\n') {
            csv->line_number = csv->next_line_number;
        } else if (byte == ',') {
            end_field(csv, fields);
            state = AT_START;
            any = true;
            if (*fields >= MOST_COLUMNS) return bad_row(csv, error, "more than 4096 columns");
        } else if (byte == '"' && state != PLAIN) {
            if (state == AFTER_QUOTE) push(csv, '"'); /* a doubled quote */
            state = QUOTED;
            any = true;
        } else if (state == AFTER_QUOTE) {
            return bad_row(csv, error, "text after a closing quote; a quote within a field is doubled");
        } else if (ends_byte_order_mark(csv, byte)) {
            csv->buffer_length = 0;
            state = AT_START;
            any = false;
        } else {
            push(csv, (char)byte);
            push_run(csv, ",\"\n\r");
            state = PLAIN;
            any = true;
        }
    }
    if (state == QUOTED) return bad_row(csv, error, "a quote is opened and never closed");
    if (csv->failed) return bad_row(csv, error, strerror(csv->failed));
    if (any) end_field(csv, fields);
    return BASE_OK;
}

static void point_at_fields(struct base_csv *csv, int count, const char **fields)
{
    const char *at = csv->buffer;
    for (int i = 0; i < count; i++) {
        fields[i] = at;
        at += strlen(at) + 1;
    }
}

static enum base_status read_header(struct base_csv *csv, struct base_error *error)
{
    int count;
    csv->next_line_number = 1;
    BASE_TRY(read_record(csv, &count, error));
    if (count == 0)
        return base_fail(error, BASE_INPUT, "%s: is empty; a table needs a header line that names its columns",
                         csv->path);
    csv->names = base_new(csv->arena, const char *, count);
    csv->column_count = count;
    point_at_fields(csv, count, csv->names);
    for (int i = 0; i < count; i++) csv->names[i] = base_copy(csv->arena, csv->names[i]);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(csv->names[i], csv->names[j]) && *csv->names[i])
                return base_fail(error, BASE_INPUT, "%s: line 1: the column \"%.60s\" is a duplicate", csv->path,
                                 csv->names[i]);
    return BASE_OK;
}

enum base_status base_csv_open(struct base_csv *csv, struct base_arena *arena, const char *path,
                               struct base_error *error)
{
    *csv = (struct base_csv){.path = path, .arena = arena};
    struct stat status;
    csv->file = open(path, O_RDONLY | O_CLOEXEC);
    if (csv->file < 0) return base_fail(error, BASE_INPUT, "%s: cannot be read: %s", path, strerror(errno));
    enum base_status result = BASE_OK;
    if (fstat(csv->file, &status) != 0 || S_ISDIR(status.st_mode))
        result = base_fail(error, BASE_INPUT, "%s: is a directory; a file is needed", path);
    if (result == BASE_OK) result = read_header(csv, error);
    if (result != BASE_OK) base_csv_close(csv);
    return result;
}

enum base_status base_csv_open_text(struct base_csv *csv, struct base_arena *arena, const char *name, const char *text,
                                    struct base_error *error)
{
    *csv = (struct base_csv){.path = name, .file = -1, .arena = arena, .text = text, .text_end = text + strlen(text)};
    return read_header(csv, error);
}

enum base_status base_csv_next(struct base_csv *csv, bool *more, struct base_error *error)
{
    int count;
    BASE_TRY(read_record(csv, &count, error));
    *more = count > 0;
    if (count > csv->field_capacity) {
        csv->field_capacity = 2 * count;
        csv->fields = base_new(csv->arena, const char *, csv->field_capacity);
    }
    point_at_fields(csv, count, csv->fields);
    csv->field_count = count;
    return BASE_OK;
}

int base_csv_column(const struct base_csv *csv, const char *name)
{
    for (int i = 0; i < csv->column_count; i++)
        if (!strcmp(csv->names[i], name)) return i;
    return -1;
}

const char *base_csv_field(const struct base_csv *csv, int column)
{
    return column >= 0 && column < csv->field_count ? csv->fields[column] : "";
}

void base_csv_close(struct base_csv *csv)
{
    if (csv->file >= 0) close(csv->file);
    csv->file = -1;
}

/* A spreadsheet would run this field: it starts like a formula and is not a number. */
static bool is_formula(const char *field)
{
    char *end;
    if (*field == '@') return strchr(field, '(') != NULL; /* otherwise a file, as in @model.json */
    if (!*field || !strchr("=+-", *field)) return false;
    strtod(field, &end);
    return end == field || *end != '\0';
}

void base_put_csv(struct base_text *text, const char *field)
{
    if (is_formula(field)) base_put(text, "'");
    if (!field[strcspn(field, ",\"\r\n")]) {
        base_put(text, field);
        return;
    }
    base_put(text, "\"");
    for (const char *at = field; *at;) {
        size_t length = strcspn(at, "\"");
        base_put_bytes(text, at, length);
        at += length;
        if (*at) {
            base_put(text, "\"\"");
            at++;
        }
    }
    base_put(text, "\"");
}
