// RUN: ocannl-opt %s -p infer-shapes --split-input-file --verify-diagnostics | filecheck %s

// Both sides, with the axes that clash, and what forced them.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<10 | 4>
  %y = texpr.data "y" : !texpr.tensor<10 | 3>
  %z = texpr.apply = add(%x, %y) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `x + y`: size 4 in `x`, 3 in `y`
// CHECK-NEXT: x: 10|4    (its output axes)
// CHECK-NEXT: ^
// CHECK-NEXT: y: 10|3    (its output axes)
// CHECK-NEXT: ^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, 3>
  %w = texpr.param "w" : !texpr.tensor<...i0 -> ...o1>
  %h = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<...b2 | ...i3 -> ...o4>
  %y = texpr.data "y" : !texpr.tensor<7>
  %z = texpr.apply add= mul(%w, %y) logic "@" : !texpr.tensor<...b5 | ...i6 -> ...o7>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `w @ y`: size 3 in `w`, 7 in `y`
// CHECK-NEXT: w: 4,3->    (its input axes)
// CHECK-NEXT: ^
// CHECK-NEXT: y: 7    (its output axes)
// CHECK-NEXT: ^
// CHECK-NEXT: because of {{.*:[0-9]+:[0-9]+}}: `w @ x`

// -----

// A hidden dimension is not guessed.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<10 | 2>
  %w1 = texpr.param "w1" : !texpr.tensor<...i0 -> ...o1>
  %w2 = texpr.param "w2" : !texpr.tensor<...i2 -> 1>
  %h = texpr.apply add= mul(%w1, %x) logic "@" : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %y = texpr.apply add= mul(%w2, %h) logic "@" : !texpr.tensor<...b6 | ...i7 -> ...o8>
  texpr.forward %y
}

// CHECK: {{:[0-9]+:[0-9]+}}: you forgot to give the hidden dimension of `w1` (its output axes)
// CHECK-NEXT: nothing determines it: give it here, as in oc.param('w1', output=16), or to a bias that is added to its product

// -----

// A dimension of which nobody knows the size.
texpr.routine @r {
  %p = texpr.param "p" : !texpr.tensor<3, ?d0>
  %y = texpr.apply = neg(%p) logic "." : !texpr.tensor<...b6 | ...i7 -> ...o8>
}

// CHECK: {{:[0-9]+:[0-9]+}}: you forgot to give the hidden dimension of `p` (its output axes)
// CHECK-NEXT: nothing determines it: give it here, as in oc.param('p', output=16), or to a bias that is added to its product

// -----

// A basis is not another.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3:rgb>
  %y = texpr.data "y" : !texpr.tensor<3:hsv>
  %z = texpr.apply = add(%x, %y) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `x + y`: sizes 3:rgb and 3:hsv differ
// CHECK-NEXT: x: 3:rgb    (its output axes)
// CHECK-NEXT: ^^^^^
// CHECK-NEXT: y: 3:hsv    (its output axes)
// CHECK-NEXT: ^^^^^

// -----

// The operators are easily confused.
texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<2 -> 16>
  %x = texpr.data "x" : !texpr.tensor<10 | 2>
  %z = texpr.apply = mul(%w, %x) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `w * x`: size 16 in `w`, 2 in `x`
// CHECK-NEXT: w: 2->16    (its output axes)
// CHECK-NEXT: ^^
// CHECK-NEXT: x: 10|2    (its output axes)
// CHECK-NEXT: ^
// CHECK-NEXT: hint: `@` is the tensor product; `*` works point by point

// -----

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<2 -> 16>
  %x = texpr.data "x" : !texpr.tensor<16 -> 5>
  %z = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `w @ x`: size 2 in `w`, 5 in `x`
// CHECK-NEXT: w: 2->16    (its input axes)
// CHECK-NEXT: ^
// CHECK-NEXT: x: 16->5    (its output axes)
// CHECK-NEXT: ^
// CHECK-NEXT: hint: the product applies its right side first, as composed functions do: try to swap the operands

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<10 | 2>
  %w = texpr.data "w" : !texpr.tensor<2 -> 16>
  %z = texpr.apply add= mul(%x, %w) logic "@" : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `x @ w`
// CHECK: hint: weights stand on the left, `w @ x`, since

// -----

// Where no row is as another operand would have it, the hint is about sizes.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<10 |>
  %w = texpr.data "w" : !texpr.tensor<16 |>
  %z = texpr.apply = mul(%x, %w) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `x * w`
// CHECK: hint: point by point, sizes are equal, or one of them is 1

// -----

// A vector that goes along the batch; and a size that a parameter was given.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<10 | 3>
  %b = texpr.data "b" : !texpr.tensor<10>
  %z = texpr.apply = add(%x, %b) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `x + b`
// CHECK: hint: to go along the batch of `x`, `b` needs a batch axis: oc.data(array, axes="b")

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<10 | 3>
  %w = texpr.param "w" : !texpr.tensor<4 -> 2>
  %z = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `w @ x`
// CHECK: hint: give `w` the size 3 at {{.*}}, or none: it is then inferred

// -----

// A row within itself.
texpr.routine @r {
  %n = texpr.node "n" : !texpr.tensor<...o0>
  %y = texpr.apply add= %n logic "... => ..., 0" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `einsum("... => ..., 0", n)`: a rank cycle: a row would have to contain itself with more axes
// CHECK-NEXT: n: ...

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a a => a" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `einsum("a a => a", x)`: sizes 3 and 2 of `a` differ
// CHECK-NEXT: x: 2,3    (its output axes)
// CHECK-NEXT: ^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a b c => a" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `einsum("a b c => a", x)`: its slot `a b c` has 3 output axes, `x` has 2
// CHECK-NEXT: x: 2,3    (its output axes)
// CHECK-NEXT: ^^^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a 3 => a" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `einsum("a 3 => a", x)`: position 3 is used of an axis of size 3
// CHECK-NEXT: x: 2,3    (its output axes)
// CHECK-NEXT: ^^^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a b => a" dims <b = 4> : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `einsum("a b => a", x)`: sizes 3 and 4 of `b` differ
// CHECK-NEXT: x: 2,3    (its output axes)
// CHECK-NEXT: ^

// -----

texpr.routine @r indices (n = 80) {
  %x = texpr.data "x" : !texpr.tensor<81, 10 | 3>
  %s = texpr.slice %x at n : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `x[n]`: size 81 in `x`, and the index `n` takes 80 values
// CHECK-NEXT: x: 81,10|3    (its batch axes)
// CHECK-NEXT: ^^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3>
  %s = texpr.slice %x at 0 : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `x[0]`: the numbers of axes differ
// CHECK-NEXT: x: 3    (it has no batch axes)
// CHECK-NEXT: hint: `x` has no batch axis to slice; `x[i, ...]` takes the first axis in memory

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3 | 3>
  %s = texpr.slice %x at 3 : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `x[3]`: position 3 is used of an axis of size 3
// CHECK-NEXT: x: 3|3    (its batch axes)
// CHECK-NEXT: ^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3>
  %p = texpr.param "p" : !texpr.tensor<4>
  texpr.assign %p = %x logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `p = x`: size 4 in `p`, 3 in `x`
// CHECK-NEXT: p: 4    (its output axes)
// CHECK-NEXT: ^
// CHECK-NEXT: x: 3    (its output axes)
// CHECK-NEXT: ^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3>
  %g = texpr.grad %x : !texpr.tensor<4>
}

// CHECK: {{:[0-9]+:[0-9]+}}: shapes do not fit in `grad`: size 4 in `x.grad`, 3 in `x`
// CHECK-NEXT: x.grad: 4    (its output axes)
// CHECK-NEXT: ^
// CHECK-NEXT: x: 3    (its output axes)
// CHECK-NEXT: ^

// -----

// Without a comma, names are letters.
texpr.routine @f {
  %x = texpr.data "x" : !texpr.tensor<4 | 3, f32>
  %y = texpr.apply add= %x logic "batch | feature => batch |" : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: its slot `batch | feature` has 5 batch axes, `x` has 1; without a comma each letter is an axis

// -----

// The axes of all rows, in the order of memory.
texpr.routine @f {
  %w = texpr.param "w" : !texpr.tensor<5, 4 | 3 -> 2, f32>
  %y = texpr.apply add= %w logic "e, a, row, i => e" : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: its slot `e, a, row, i` has no batch axes, `w` has 2; its axes are `e, a | i -> row`

// -----

// Other rows than those of the tensor.
texpr.routine @f {
  %w = texpr.param "w" : !texpr.tensor<5, 4 | 3, f32>
  %y = texpr.apply add= %w logic "b | i o => b" : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: its slot `b | i o` has 1 batch axis, `w` has 2; its axes are `b i | o`
