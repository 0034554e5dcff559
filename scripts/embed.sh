#!/bin/sh
# Prints the assembler text that makes the file given an array of characters, ended by a NUL.
# topo/chips.csv is seen from C as `extern const char embedded_topo_chips_csv[];`.
set -eu
name=embedded_$(printf '%s' "$1" | tr -c 'A-Za-z0-9' '_')
cat <<EOF
	.section .rodata
	.global $name
	.type $name, %object
$name:
	.incbin "$1"
	.byte 0
	.size $name, . - $name
	.section .note.GNU-stack, "", %progbits
EOF
