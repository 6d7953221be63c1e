// RUN: ocannl-opt %s --split-input-file --parsing-diagnostics | filecheck %s

texpr.routine @r {
  %x = texpr.data "x" : f32
}

// CHECK: %x = texpr.data "x" : f32
// CHECK-NEXT: ^^^
// CHECK-NEXT: expected a !texpr.tensor type

// -----

texpr.routine @r {
  %x = texpr.data x : !texpr.tensor<f32>
}

// CHECK: %x = texpr.data x : !texpr.tensor<f32>
// CHECK-NEXT: ^
// CHECK-NEXT: string literal expected naming the node

// -----

texpr.routine @r {
  %x = texpr.constant one : !texpr.tensor<f32>
}

// CHECK: %x = texpr.constant one : !texpr.tensor<f32>
// CHECK-NEXT: ^
// CHECK-NEXT: expected a number

// -----

texpr.routine @r {
  %x = texpr.constant - : !texpr.tensor<f32>
}

// CHECK: %x = texpr.constant - : !texpr.tensor<f32>
// CHECK-NEXT: ^
// CHECK-NEXT: expected a number after `-`

// -----

texpr.routine @r {
  texpr.forward %x
}

// CHECK: texpr.forward %x
// CHECK-NEXT: ^^
// CHECK-NEXT: %x is used before its definition

// -----

texpr.routine @r {
  %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<f32>
}

// CHECK: %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<f32>
// CHECK-NEXT: ^^
// CHECK-NEXT: %x is used before its definition

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<f32>
  texpr.forward %x#1
}

// CHECK: texpr.forward %x#1
// CHECK-NEXT: ^^
// CHECK-NEXT: %x is one value, not several

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<f32>
  %x = texpr.data "y" : !texpr.tensor<f32>
}

// CHECK: %x = texpr.data "y" : !texpr.tensor<f32>
// CHECK-NEXT: ^^
// CHECK-NEXT: SSA value %x is already defined

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply = softmax(%x) logic "." : !texpr.tensor<4, f32>
}

// CHECK: %y = texpr.apply = softmax(%x) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT: ^^^^^^^
// CHECK-NEXT: unknown scalar operator `softmax`

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply = mul(%x) logic "." : !texpr.tensor<4, f32>
}

// CHECK: %y = texpr.apply = mul(%x) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT: ^^^^^^^^
// CHECK-NEXT: `mul` takes 2 arguments, found 1

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply mul(%x, %x) logic "." : !texpr.tensor<4, f32>
}

// CHECK: %y = texpr.apply mul(%x, %x) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT: ^
// CHECK-NEXT: Expected '='

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[2 i] over (i = 4) : !texpr.tensor<4, f32>
}

// CHECK: %y = texpr.apply [i] = %x[2 i] over (i = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT: ^
// CHECK-NEXT: an index adds integers, names and integers times names: `2*o + k - 1`

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[i*2] over (i = 2) : !texpr.tensor<4, f32>
}

// CHECK: %y = texpr.apply [i] = %x[i*2] over (i = 2) : !texpr.tensor<4, f32>
// CHECK-NEXT: ^
// CHECK-NEXT: an index adds integers, names and integers times names: `2*o + k - 1`

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[i] over (i = 4, i = 4) : !texpr.tensor<4, f32>
}

// CHECK: %y = texpr.apply [i] = %x[i] over (i = 4, i = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT: ^^^^^^^^^^^^^^^
// CHECK-NEXT: an iteration variable is declared twice

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[i] over (i = -4) : !texpr.tensor<4, f32>
}

// CHECK: %y = texpr.apply [i] = %x[i] over (i = -4) : !texpr.tensor<4, f32>
// CHECK-NEXT: ^
// CHECK-NEXT: Expected integer literal as the size

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply = %x logic "a => a" dims <a = 4, a = 5> : !texpr.tensor<4, f32>
}

// CHECK: %y = texpr.apply = %x logic "a => a" dims <a = 4, a = 5> : !texpr.tensor<4, f32>
// CHECK-NEXT: ^^
// CHECK-NEXT: `a` is given twice

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply = %x logic "a => a" dims <a = many> : !texpr.tensor<4, f32>
}

// CHECK: %y = texpr.apply = %x logic "a => a" dims <a = many> : !texpr.tensor<4, f32>
// CHECK-NEXT: ^
// CHECK-NEXT: expected a dimension: a size or `?d1`

// -----

texpr.routine @r {
  %x = texpr.size 4.5 : !texpr.tensor<f32>
}

// CHECK: %x = texpr.size 4.5 : !texpr.tensor<f32>
// CHECK-NEXT: ^
// CHECK-NEXT: expected a dimension: a size or `?d1`

// -----

texpr.routine @r indices (n = -3) {
}

// CHECK: texpr.routine @r indices (n = -3) {
// CHECK-NEXT: ^
// CHECK-NEXT: Expected integer literal as the range

// -----

// Types.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<-4, f32>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<-4, f32>
// CHECK-NEXT: ^
// CHECK-NEXT: '>' expected

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<?x4>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<?x4>
// CHECK-NEXT: ^^^
// CHECK-NEXT: a variable is numbered, as in `d1`; found `x4`

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<?d>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<?d>
// CHECK-NEXT: ^^
// CHECK-NEXT: a variable is numbered, as in `d1`; found `d`

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<...f32>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<...f32>
// CHECK-NEXT: ^^^^^^
// CHECK-NEXT: a variable is numbered, as in `b1` or `i1` or `o1`; found `f32`

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<...o1, ...o2>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<...o1, ...o2>
// CHECK-NEXT: ^^^
// CHECK-NEXT: a row has one variable or split

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2 -> 3 | 4>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<2 -> 3 | 4>
// CHECK-NEXT: ^
// CHECK-NEXT: '>' expected

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3 4, f32>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<3 4, f32>
// CHECK-NEXT: ^
// CHECK-NEXT: '>' expected

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3:, f32>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<3:, f32>
// CHECK-NEXT: ^
// CHECK-NEXT: identifier expected naming the basis

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4, memref<4xf32>>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<4, memref<4xf32>>
// CHECK-NEXT: ^^^^^^^^^^^^^
// CHECK-NEXT: the elements of a tensor are floats of up to 64 bits, i1 to i64, or ui8 to ui32, found memref<4xf32>

// -----

texpr.routine @r {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %ids = texpr.data "ids" : !texpr.tensor<4, i32>
  %v = texpr.data "v" : !texpr.tensor<4, f32>
  texpr.assign %m[i, at$0, at$1] by (%ids, %ids[o]) add= %v[o] over (o = 4)
}

// CHECK: texpr.assign %m[i, at$0, at$1] by (%ids, %ids[o]) add= %v[o] over (o = 4)
// CHECK-NEXT: ^^^^
// CHECK-NEXT: all operands in `by` have index maps, or none has one

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3 | 2, f32>
  %y = texpr.data "y" : !texpr.tensor<2, f32>
  %c = texpr.scan t = 3 carry (%k = %y : !texpr.tensor<2, f32>) each (%e = %x at batch -2147483647 : !texpr.tensor<2, f32>) {
    texpr.yield carry (%k)
  }
}

// CHECK: %c = texpr.scan t = 3 carry (%k = %y : !texpr.tensor<2, f32>) each (%e = %x at batch -2147483647 : !texpr.tensor<2, f32>) {
// CHECK-NEXT: {{\^+}}
// CHECK-NEXT: a row has at most 1000 axes

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3 | 2, f32>
  %y = texpr.slice %x at [1, 0] : !texpr.tensor<...b0 | ...i1 -> ...o2>
}

// CHECK: each row has `...`, for its other axes, as in `[2, ... | ... -> ..., 0 to 5]`

// -----

// CHECK: expected a tolerance, which is 0 or more
texpr.routine @below_zero {
  %x = texpr.data "x" : !texpr.tensor<f32>
  %y = texpr.scan t = 2 within -0.1 carry (%c = %x : !texpr.tensor<f32>) {
    texpr.yield carry (%c)
  } : !texpr.tensor<f32>
}

// -----

// CHECK: c is no sequence
texpr.routine @counts_by_a_carry {
  %x = texpr.data "x" : !texpr.tensor<f32>
  %y = texpr.scan t = 2 where %c carry (%c = %x : !texpr.tensor<f32>) {
    texpr.yield carry (%c)
  } : !texpr.tensor<f32>
}

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<5, f32>
  %y = texpr.apply = relu(%x[i]) logic "." : !texpr.tensor<5, f32>
}

// CHECK: %y = texpr.apply = relu(%x[i]) logic "." : !texpr.tensor<5, f32>
// CHECK-NEXT: ^^^
// CHECK-NEXT: an operand has an index map where the result has one

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<4 | , i32>
}

// CHECK: %x = texpr.data "x" : !texpr.tensor<4 | , i32>
// CHECK-NEXT: ^
// CHECK-NEXT: an axis is missing; an empty row has no comma, as in `4 | i32`
