[
  (block)
  (optimizer)
  (train)
  (if)
  (for)
  (scan)
  (repeat)
  (run)
  (parameters)
  (inputs)
  (arguments)
] @fold
