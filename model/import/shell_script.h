/* Private to shell*.c: a script as it is read. */
#ifndef MODEL_IMPORT_SHELL_SCRIPT_H
#define MODEL_IMPORT_SHELL_SCRIPT_H

#include "model/import/import_settings.h"

enum { MOST_FRAMES = 64, DEEPEST_CALL = 8, MOST_COMMANDS = 4096 };

enum frame_kind { FRAME_IF, FRAME_LOOP, FRAME_CASE, FRAME_GROUP, FRAME_FUNCTION };
struct frame {
    enum frame_kind kind;
    bool was_active, taken /* a branch was */, active, in_condition, condition;
    const char *subject; /* of a case; a function's name */
    bool wants_pattern;
    const char *body; /* of a function */
    int line;
};
struct script {
    struct import_shell *shell;
    const char *at;
    int line, depth;
    struct frame frames[MOST_FRAMES];
    int frame_count;
    bool status;                  /* of the command before, for && and || */
    char joint;                   /* '&', '|', or 0: the operator before this command */
    const char *command;          /* where the current one begins */
    const char *document, *after; /* its here-document, and where the script goes on behind; NULL: none */
    int document_line_count;
    const char *into; /* the file that its output goes to */
};


/* ---- shell_assignments.c ---- */

enum base_status model_import_script_fail(const struct script *script, const char *what);
bool model_import_script_is_active(const struct script *script); /* no condition around it is false */
/* Blanks, ends of lines with a backslash, and comments; Slurm's directives in those are variables.
 */
enum base_status model_import_script_blanks(struct script *script);
/* "NAME=", "NAME[key]=" or "NAME+=": its length; 0: it is none. */
size_t model_import_script_assignment(const char *at);
enum base_status model_import_script_assign(struct script *script, size_t length);

#endif
