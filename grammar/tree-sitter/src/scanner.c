// The layout of lines: where a statement ends, and where its block begins and ends.
//
// It decides what meganeura_dsl/syntax/parser/scanner.py decides, with tokens of no width at the end
// of what was written before them. Inside brackets the grammar has no place for them, so a line that
// ends there ends nothing.
//
// A declaration begins wherever one of its words stands at the left margin. If the one above is not
// complete there, the line that it ends with gives a token which no rule has, and so a mistake.
//
// After a mistake every token is valid. Then the end of each line is a token that takes its line
// break, so that the parser moves on, and a line further to the left closes the blocks it has left.
// A declaration that begins gives a token of its whole text: to go on there costs the parser nothing,
// and to pass over it costs much.
//
// Editors that run parsers as WebAssembly give them few functions of C: `calloc`, `free`, `memcpy` and
// `strcmp` are among them.

#include "tree_sitter/parser.h"

#include <stdlib.h>
#include <string.h>

// MARGIN is valid where a declaration may begin, ANYWHERE always, so that the scanner is asked at
// every token, and ERROR after a mistake alone. No text without a mistake has any of them.
enum Token { NEWLINE, INDENT, DEDENT, MARGIN, ANYWHERE, ERROR };

enum { LONGEST = sizeof "optimizer" - 1 };
enum { DEEPEST = TREE_SITTER_SERIALIZATION_BUFFER_SIZE / sizeof(uint16_t) - 1 };

typedef struct {
    uint16_t count;
    uint16_t widths[DEEPEST]; // of the indented blocks that are open, the innermost last
} Scanner;

static uint32_t innermost(const Scanner *self) {
    return self->count ? self->widths[self->count - 1] : 0;
}

static void skip(TSLexer *lexer) { lexer->advance(lexer, true); }

static bool is_blank(int32_t c) { return c == ' ' || c == '\t' || c == '\r'; }

static bool begins_operator(int32_t c) {
    static const char signs[] = {'-', '+', '*', '/', '%', '@', '<', '>', '='};
    for (size_t at = 0; at < sizeof signs; at++) {
        if (c == signs[at]) {
            return true;
        }
    }
    return false;
}

static bool is_word(int32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void skip_comment(TSLexer *lexer) {
    while (lexer->lookahead != '\n' && !lexer->eof(lexer)) {
        skip(lexer);
    }
}

static void skip_blanks(TSLexer *lexer) {
    while (is_blank(lexer->lookahead)) {
        skip(lexer);
    }
}

// Reads up to the first token of a line, and returns the column where it begins.
static uint32_t next_line(TSLexer *lexer) {
    uint32_t width = 0;
    for (;;) {
        if (lexer->eof(lexer)) {
            return 0;
        }
        if (lexer->lookahead == '\n') {
            width = 0;
            skip(lexer);
        } else if (is_blank(lexer->lookahead)) {
            width++;
            skip(lexer);
        } else if (lexer->lookahead == '#') {
            skip_comment(lexer);
        } else {
            return width;
        }
    }
}

// Reads a word; `word` is empty if there is none, or it is longer than any of ours.
static void read_word(TSLexer *lexer, char word[LONGEST + 1]) {
    size_t length = 0;
    for (; is_word(lexer->lookahead); length++) {
        if (length < LONGEST) {
            word[length] = (char)lexer->lookahead;
        }
        skip(lexer);
    }
    word[length <= LONGEST ? length : 0] = 0;
}

// True if the line that begins here, at the left margin, begins a declaration.
static bool declares(TSLexer *lexer) {
    static const char *const words[] = {"def", "block", "model", "train", "from", "expect"};
    char word[LONGEST + 1];
    read_word(lexer, word);
    if (strcmp(word, "optimizer") == 0) {
        bool apart = is_blank(lexer->lookahead);
        skip_blanks(lexer);
        return apart && is_word(lexer->lookahead);
    }
    for (size_t at = 0; at < sizeof words / sizeof *words; at++) {
        if (strcmp(word, words[at]) == 0) {
            return true;
        }
    }
    return false;
}

// True if the line that begins here goes on with the one above. `where = 1` and `where, x = f()`
// bind a name, and `else:` and `else if` belong to a statement.
static bool continues(TSLexer *lexer) {
    int32_t c = lexer->lookahead;
    if (c == '|' || c == '!') {
        skip(lexer);
        return lexer->lookahead == (c == '|' ? '>' : '=');
    }
    if (begins_operator(c)) {
        return true;
    }
    char word[LONGEST + 1];
    read_word(lexer, word);
    if (strcmp(word, "and") == 0 || strcmp(word, "or") == 0) {
        return true;
    }
    bool is_where = strcmp(word, "where") == 0;
    if (!is_where && strcmp(word, "else") != 0) {
        return false;
    }
    skip_blanks(lexer);
    c = lexer->lookahead;
    if (is_where) {
        if (c == '=') {
            skip(lexer);
            return lexer->lookahead == '=';
        }
        return c != ',';
    }
    if (c == 'i') {
        skip(lexer);
        if (lexer->lookahead == 'f') {
            skip(lexer);
            return is_word(lexer->lookahead);
        }
    }
    return c != ':';
}

static bool open_block(Scanner *self, uint32_t width) {
    if (self->count == DEEPEST || width > UINT16_MAX) {
        return false;
    }
    self->widths[self->count++] = (uint16_t)width;
    return true;
}

// What stands here after a mistake.
static bool recover(Scanner *self, TSLexer *lexer) {
    lexer->mark_end(lexer);
    bool begins = lexer->get_column(lexer) == 0;
    if (!begins) {
        skip_blanks(lexer);
        if (lexer->lookahead == '\n') {
            lexer->advance(lexer, false);
            lexer->mark_end(lexer);
            next_line(lexer);
            lexer->result_symbol = NEWLINE;
            return !continues(lexer);
        }
        if (!lexer->eof(lexer)) {
            return false;
        }
    }
    uint32_t width = next_line(lexer);
    if (width < innermost(self)) {
        self->count--;
        lexer->result_symbol = DEDENT;
        return true;
    }
    if (width > 0 || !declares(lexer)) {
        return false;
    }
    do {
        skip_comment(lexer); // the rest of the line
        lexer->advance(lexer, false);
        lexer->mark_end(lexer);
    } while (!lexer->eof(lexer) && !declares(lexer));
    lexer->result_symbol = MARGIN;
    return true;
}

// What stands here as long as all is well.
static bool scan(Scanner *self, TSLexer *lexer, const bool *valid) {
    if (valid[ERROR]) {
        return recover(self, lexer);
    }
    lexer->mark_end(lexer);
    // After a mistake the parser may go on at the beginning of a line.
    bool begins = (valid[INDENT] || valid[DEDENT]) && lexer->get_column(lexer) == 0;
    if (!begins) {
        skip_blanks(lexer);
        if (lexer->lookahead == '#') {
            skip_comment(lexer);
        }
        if (lexer->lookahead != '\n' && !lexer->eof(lexer)) {
            return false;
        }
    }
    uint32_t width = next_line(lexer);
    if (valid[NEWLINE]) {
        lexer->result_symbol = NEWLINE;
        return !continues(lexer);
    }
    if (valid[INDENT] && width > innermost(self)) {
        lexer->result_symbol = INDENT;
        return open_block(self, width);
    }
    if (valid[DEDENT] && width < innermost(self)) {
        self->count--;
        lexer->result_symbol = DEDENT;
        return true;
    }
    lexer->result_symbol = ERROR;
    return !valid[MARGIN] && width == 0 && declares(lexer);
}

void *tree_sitter_meganeura_external_scanner_create(void) { return calloc(1, sizeof(Scanner)); }

void tree_sitter_meganeura_external_scanner_destroy(void *payload) { free(payload); }

unsigned tree_sitter_meganeura_external_scanner_serialize(void *payload, char *buffer) {
    const Scanner *self = payload;
    size_t size = self->count * sizeof self->widths[0];
    memcpy(buffer, self->widths, size);
    return (unsigned)size;
}

void tree_sitter_meganeura_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
    Scanner *self = payload;
    self->count = (uint16_t)(length / sizeof self->widths[0]);
    if (length) {
        memcpy(self->widths, buffer, length);
    }
}

bool tree_sitter_meganeura_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
    return scan(payload, lexer, valid);
}
