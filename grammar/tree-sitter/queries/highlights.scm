; No node is in two patterns, so that it does not matter whether the first or the last one wins.
; Names that are in none have the colour of text.

(comment) @comment
(string) @string
[(integer) (real)] @number
[(true) (false)] @constant.builtin
(dtype) @type.builtin

; --- words ---

[
  "from" "import"
  "def" "block" "optimizer" "model" "train" "expect"
  "has" "holds" "maps" "where" "each" "of"
  "if" "else" "for" "scan" "repeat" "in" "while" "return"
  "param" "frozen" "state" "cache" "layer" "update" "project"
  "minimize" "over" "metric" "show" "run"
] @keyword
(whole) @keyword

["and" "or" "not"] @keyword.operator

; --- signs ---

[
  "|>" "->" "=" "+" "-" "*" "/" "//" "%" "@" "**"
  "==" "!=" "<" "<=" ">" ">=" ".." "..."
] @operator

["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ":" "."] @punctuation.delimiter

; --- names ---

(import (dotted (name) @module))
(import (names (name) @type))

(definition . "def" . (name) @function)
(block . "block" . (name) @type)
(optimizer . "optimizer" . (name) @type)
(model . "model" . (name) @type)
(train . "train" . (name) @type)

(named_kind . (name) @type)
(parameter . (name) @variable.parameter)
(input . (name) @variable.parameter)
(feed . (name) @variable.parameter)
(ragged . (name) @variable.parameter)
(argument . (name) @variable.parameter . "=")

(call . (name) @function)
(applied (path (name) @function))
(attribute (name) @property .)
(setting . (name) @property)

; Labels are the keys of weights.
(labelled . (path (name) @label))
(declare (path (name) @label))
(layer_declared . "layer" . (path (name) @label))
(over (path (name) @label))
(update . "update" . (path (name) @label))
(update_part . "update" . (name) @label)
(project . "project" . (path (name) @label))
