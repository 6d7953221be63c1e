// RUN: ocannl-opt %s --split-input-file --parsing-diagnostics | filecheck %s

assign.routine @r {
  %x = assign.node "x" remote : memref<4xf32>
}

// CHECK: %x = assign.node "x" remote : memref<4xf32>
// CHECK-NEXT: ^^^^^^
// CHECK-NEXT: Expected one of 'constant', 'kept', 'local', 'on_device', 'virtual' as the memory mode

// -----

assign.routine @r {
  %x = assign.node "x" local : f32
}

// CHECK: %x = assign.node "x" local : f32
// CHECK-NEXT: ^^^
// CHECK-NEXT: a node has a memref type

// -----

assign.routine @r {
  %x = assign.node "x" local at -8 : memref<4xf32>
}

// CHECK: %x = assign.node "x" local at -8 : memref<4xf32>
// CHECK-NEXT: ^
// CHECK-NEXT: Expected integer literal

// -----

assign.routine @r {
  assign.accum %x[i] = 1.0 over (i = 4)
}

// CHECK: assign.accum %x[i] = 1.0 over (i = 4)
// CHECK-NEXT: ^^
// CHECK-NEXT: %x is used before its definition

// -----

assign.routine @r {
  %x = assign.node "x" local : memref<4xf32>
  assign.accum %x = 1.0 over (i = 4)
}

// CHECK: assign.accum %x = 1.0 over (i = 4)
// CHECK-NEXT: ^
// CHECK-NEXT: expected an index map `[...]`

// -----

assign.routine @r {
  %x = assign.node "x" local : memref<4xf32>
  assign.accum %x[i] = 1.0
}

// CHECK: }
// CHECK-NEXT: ^
// CHECK-NEXT: Expected 'over'

// -----

assign.routine @r {
  %x = assign.node "x" local : memref<4xf32>
  assign.accum %x[i] = add(%y[i], 1.0) over (i = 4)
}

// CHECK: assign.accum %x[i] = add(%y[i], 1.0) over (i = 4)
// CHECK-NEXT: ^^
// CHECK-NEXT: %y is used before its definition

// -----

assign.routine @r {
  %x = assign.node "x" local : memref<4xf32>
  assign.accum %x[i] = neg(1.0, 2.0) over (i = 4)
}

// CHECK: assign.accum %x[i] = neg(1.0, 2.0) over (i = 4)
// CHECK-NEXT: ^^^^^^^^^^^^^^
// CHECK-NEXT: `neg` takes 1 arguments, found 2

// -----

assign.routine @r {
  %x = assign.node "x" local : memref<4xf32>
  assign.accum %x[i] = average(1.0, 2.0) over (i = 4)
}

// CHECK: assign.accum %x[i] = average(1.0, 2.0) over (i = 4)
// CHECK-NEXT: ^^^^^^^
// CHECK-NEXT: unknown scalar operator `average`

// -----

assign.routine @r {
  %x = assign.node "x" local : memref<4xf32>
  assign.accum %x[i] = 1.0 over (i = 4, i = 5)
}

// CHECK: assign.accum %x[i] = 1.0 over (i = 4, i = 5)
// CHECK-NEXT: ^^^^^^^^^^^^^^
// CHECK-NEXT: an iteration variable is declared twice

// -----

assign.routine @r {
  %x = assign.node "x" local : memref<4xf32>
  assign.accum %x[i*2] = 1.0 over (i = 2)
}

// CHECK: assign.accum %x[i*2] = 1.0 over (i = 2)
// CHECK-NEXT: ^
// CHECK-NEXT: an index adds integers, names and integers times names: `2*o + k - 1`

// -----

assign.routine @r {
  %e = assign.embed 1.5 : f32
}

// CHECK: %e = assign.embed 1.5 : f32
// CHECK-NEXT: ^^^
// CHECK-NEXT: identifier expected or an integer in an index expression

// -----

assign.routine r {
}

// CHECK: assign.routine r {
// CHECK-NEXT: ^
// CHECK-NEXT: expect symbol name

// -----

"test.op"() {t = #assign.term<add(@a0, @b1)>} : () -> ()

// CHECK: "test.op"() {t = #assign.term<add(@a0, @b1)>} : () -> ()
// CHECK-NEXT: ^^^
// CHECK-NEXT: expected an argument @a0, @a1, ...

// -----

"test.op"() {t = #assign.term<add(@a0)>} : () -> ()

// CHECK: "test.op"() {t = #assign.term<add(@a0)>} : () -> ()
// CHECK-NEXT: ^^^^^^^^
// CHECK-NEXT: `add` takes 2 arguments, found 1

// -----

"test.op"() {t = #assign.map<i>} : () -> ()

// CHECK: "test.op"() {t = #assign.map<i>} : () -> ()
// CHECK-NEXT: ^
// CHECK-NEXT: expected an index map `[...]`

// -----

"test.op"() {t = #assign.space<(i = 2, i = 2)>} : () -> ()

// CHECK: "test.op"() {t = #assign.space<(i = 2, i = 2)>} : () -> ()
// CHECK-NEXT: ^^^^^^^^^^^^^^
// CHECK-NEXT: an iteration variable is declared twice

// -----

assign.routine @r {
  %m = assign.node "m" on_device : memref<5xf32>
  %ids = assign.node "ids" constant : memref<4xi32>
  %v = assign.node "v" constant : memref<4xf32>
  assign.accum %m[at$0] by (%ids) add= %v[o] over (o = 4)
}

// CHECK: assign.accum %m[at$0] by (%ids) add= %v[o] over (o = 4)
// CHECK-NEXT: ^^^^
// CHECK-NEXT: each operand in `by` has an index map

// -----

assign.routine @r {
  %y = assign.node "y" on_device : memref<8xf32>
  assign.accum %y[i] = 1e-5 over (i = 8)
}

// CHECK: assign.accum %y[i] = 1e-5 over (i = 8)
// CHECK-NEXT: ^
// CHECK-NEXT: a float has a point before its exponent, as in 1.0e-5
