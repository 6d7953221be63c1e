// RUN: ocannl-opt %s --split-input-file --verify-diagnostics | filecheck %s

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[i + 1] over (i = 4) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: index i + 1 runs from 1 to 4, outside size 4

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [-i] = %x[i] over (i = 4) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: index -i runs from -3 to 0, outside size 4

// -----

texpr.routine @r indices (s) {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[j] over (i = 4) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: `j` is neither an iteration variable nor a static index here

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[i, i] over (i = 4) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: 2 indices for the 1 axes of 4

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<...o1>
  %y = texpr.apply [i] = %x[i] over (i = 4) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: an index map needs a final shape, found ...

// -----

// A static index is no iteration variable.
texpr.routine @r indices (i = 3) {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[i] over (i = 4) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: `i` is a static index of the routine, and no iteration variable

// -----

// A reduction accumulates.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [] = %x[i] over (i = 4) : !texpr.tensor<f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: a reduction over `i` needs an accumulation, such as `add=`

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply sub= %x logic "." : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: `sub` is not an accumulation, expected one of add, mul, or, and, max, min

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply plus= %x logic "." : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: `plus` is not an accumulation, expected one of add, mul, or, and, max, min

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply = %x : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: an operation has a logic (".", "@", "T" or an einsum spec) or index maps

// -----

// The forms as built and projected are not mixed.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[i] logic "." over (i = 4) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: a projected operation has index maps, not a logic

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[i] logic "." : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: an operation with a logic has no index maps yet

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply = %x over (i = 4) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: a projected operation has an index map for its result and every operand

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  texpr.assign %x[i] = %x logic "." over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: a projected assignment has index maps, not a logic

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  texpr.assign %x[i] = %x[i] logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: an assignment with a logic has no index maps yet

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  texpr.assign %x[i] = %x over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: a projected assignment has two index maps

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  texpr.assign %x = %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: an assignment has a logic (".", "T" or an einsum spec) or index maps

// -----

// Only memory can be assigned.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<4, f32>
  texpr.assign %y = %x logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: only memory can be assigned: a parameter, data, a node, a gradient or a value

// -----

texpr.routine @r {
  %x = texpr.param "x" : !texpr.tensor<4, f32>
  %m = texpr.merge "x.merge" of %x from 0 : !texpr.tensor<4, f32>
  texpr.assign %m = %x logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: a merge buffer has the value of another context: it cannot be assigned

// -----

texpr.routine @r {
  %x = texpr.param "x" : !texpr.tensor<4, f32>
  %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<4, f32>
  %m = texpr.merge "y.merge" of %y from 0 : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.merge`: only memory is merged: a parameter, data, a node, a gradient or a value

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.data "y" : !texpr.tensor<5, f32>
  texpr.assign %x[i] = %y[2*i] over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: index 2*i runs from 0 to 6, outside size 5

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  texpr.assign %x div= %x logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: `div` is not an accumulation, expected one of add, mul, or, and, max, min

// -----

// A routine has no operations of other dialects, also if nothing reads them.
texpr.routine @r {
  %w = assign.node "w" constant : memref<4xf32>
  %x = texpr.param "x" : !texpr.tensor<4, f32>
  texpr.backprop %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: a texpr.routine has operations of texpr only

// -----

// Operands are tensors.
texpr.routine @r {
  %x = arith.constant 1.0 : f32
  texpr.forward %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.forward`: operand 'tensor' at position 0 does not verify:
// CHECK-NEXT: f32 should be of base attribute texpr.tensor

// -----

texpr.routine @r {
  %x = arith.constant 1.0 : f32
  %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: operand 'args' at position 0 does not verify:
// CHECK-NEXT: f32 should be of base attribute texpr.tensor

// -----

texpr.routine @r indices (n) {
  %x = texpr.data "x" : !texpr.tensor<4 | 4, f32>
  %y = texpr.slice %x at m : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.slice`: `m` is neither an iteration variable nor a static index here

// -----

texpr.routine @r {
  %x = texpr.embed n : !texpr.tensor<f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.embed`: `n` is neither an iteration variable nor a static index here

// -----

texpr.routine @r {
  %x = texpr.range : !texpr.tensor<2, 3, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.range`: a range has one axis, in the output row; found 2,3

// -----

texpr.routine @r {
  %x = texpr.range : !texpr.tensor<2 | f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.range`: a range has one axis, in the output row; found 2|

// -----

texpr.routine @r indices (i, j, i = 3) {
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.routine`: a static index is declared twice

// -----

// Routines do not share values.
%x = texpr.data "x" : !texpr.tensor<4 | 4, f32>
texpr.routine @r {
  texpr.forward %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.routine`: Operation using value defined out of its IsolatedFromAbove parent: ForwardOp(texpr.forward %x)

// -----

texpr.routine @r {
^bb0(%x : !texpr.tensor<f32>):
  texpr.forward %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.routine`: the block has no arguments: variables are named in the space, nodes are declared

// -----

texpr.routine @parts {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.apply [a] = %x[a] over (a = 3) then [b + 4] = %x[b] over (b = 3) : !texpr.tensor<6, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: index b + 4 runs from 4 to 6, outside size 6

// -----

texpr.routine @flat {
  %x = texpr.data "x" flat 12 : !texpr.tensor<5 | 2, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.data`: flat data of 12 elements has a shape of 10: 5|2

// -----

// Derivatives have the shapes of what they are of.
texpr.routine @r {
  %x = texpr.param "x" : !texpr.tensor<4, f32>
  %y = texpr.param "y" : !texpr.tensor<f32>
  %g = texpr.vjp %y wrt %x : !texpr.tensor<5, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.vjp`: the result has the shape 4, found 5

// -----

texpr.routine @r {
  %x = texpr.param "x" : !texpr.tensor<4, f32>
  %y = texpr.param "y" : !texpr.tensor<f32>
  %t = texpr.jvp %y wrt (%x = %x) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.jvp`: the result has the shape (), found 4

// -----

texpr.routine @r {
  %x = texpr.param "x" : !texpr.tensor<4, f32>
  %y = texpr.custom %x adjoint %x pullback (%x = %x) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.custom`: what reaches a custom gradient is a `texpr.adjoint`

// -----

texpr.routine @r {
  %x = texpr.param "x" : !texpr.tensor<4, f32>
  %y = texpr.param "y" : !texpr.tensor<4, f32>
  %ct = texpr.adjoint %y : !texpr.tensor<4, f32>
  %z = texpr.custom %x adjoint %ct pullback (%x = %ct) : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.custom`: the `texpr.adjoint` of a custom gradient is that of its value

// -----

texpr.routine @r indices (s) {
  %s = texpr.embed s : !texpr.tensor<f32>
  %u = texpr.uniform "u" at %s : !texpr.tensor<4, i32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.uniform`: random numbers are floats, found i32

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %u = texpr.uniform "u" at %x : !texpr.tensor<4, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.uniform`: a counter is one number, found shape 4

// -----

texpr.routine @r {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %ids = texpr.data "ids" : !texpr.tensor<4, i32>
  %v = texpr.data "v" : !texpr.tensor<4, f32>
  texpr.assign %m at [... | ... -> <1 as 1>, ...] by (%ids) = %v logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: each of the 1 operands in `by` is the position of one axis, by its number

// -----

texpr.routine @r {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %ids = texpr.data "ids" : !texpr.tensor<4, i32>
  %v = texpr.data "v" : !texpr.tensor<4, f32>
  texpr.assign %m at [... | ... -> ...] by (%ids) = %v logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: each of the 1 operands in `by` is the position of one axis, by its number

// -----

texpr.routine @r {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %ids = texpr.data "ids" : !texpr.tensor<4, i32>
  %v = texpr.data "v" : !texpr.tensor<4, f32>
  texpr.assign %m by (%ids) = %v logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: each of the 1 operands in `by` is the position of one axis, by its number

// -----

texpr.routine @r {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %ids = texpr.data "ids" : !texpr.tensor<4, i32>
  %v = texpr.data "v" : !texpr.tensor<4, f32>
  texpr.assign %m at [<0 as 1>, ... | ... -> <0 as 1>, ...] by (%ids) = %v logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: each of the 1 operands in `by` is the position of one axis, by its number

// -----

texpr.routine @r {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %ids = texpr.data "ids" : !texpr.tensor<4, i32>
  %v = texpr.data "v" : !texpr.tensor<4, f32>
  texpr.assign %m at [... | ... -> <0 as 1>, ...] by (%ids[o]) = %v logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: an assignment with a logic has no index maps yet

// -----

texpr.routine @r {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %ids = texpr.data "ids" : !texpr.tensor<4, i32>
  %v = texpr.data "v" : !texpr.tensor<4, f32>
  "texpr.assign"(%m, %v, %ids) <{accum = "add", result_map = #assign.map<[at$0]>, value_map = #assign.map<[o]>, id_maps = [#assign.map<[o]>, #assign.map<[o]>], space = #assign.space<(o = 4)>}> : (!texpr.tensor<5, f32>, !texpr.tensor<4, f32>, !texpr.tensor<4, i32>) -> ()
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: 2 index maps for 1 operands in `by`

// -----

texpr.routine @r {
  %n = texpr.data "n" : !texpr.tensor<f64>
  %twice = texpr.apply = mul(%n, 2.0) logic "." literal : !texpr.tensor<>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: a literal is a number as it is read

// -----

texpr.routine @r {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %v = texpr.data "v" : !texpr.tensor<5, f32>
  texpr.assign %m = %v logic ". "
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.assign`: a row variable is written `...` or `..name..`
