// RUN: ocannl-opt %s --split-input-file --parsing-diagnostics | filecheck %s

loops.func @f {
  loops.nest x (i = 4) {
  }
}

// CHECK: loops.nest x (i = 4) {
// CHECK-NEXT: ^
// CHECK-NEXT: string literal expected naming the nest

// -----

loops.func @f {
  loops.nest "x" (i = 4, i = 4) {
  }
}

// CHECK: loops.nest "x" (i = 4, i = 4) {
// CHECK-NEXT: ^^^^^^^^^^^^^^^
// CHECK-NEXT: an iteration variable is declared twice

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <lanes = i : 2, lanes = i : 4> {
  }
}

// CHECK: loops.nest "x" (i = 4) schedule <lanes = i : 2, lanes = i : 4> {
// CHECK-NEXT: ^^^^^^
// CHECK-NEXT: `lanes` stands twice in the schedule

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <tile = i : 2> {
  }
}

// CHECK: loops.nest "x" (i = 4) schedule <tile = i : 2> {
// CHECK-NEXT: ^^^^
// CHECK-NEXT: Expected one of 'chains', 'dot', 'lanes', 'merged', 'order', 'parallel', 'rows', 'strips', 'tuned' in a schedule

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    loops.load %x[i]
  }
}

// CHECK: loops.load %x[i]
// CHECK-NEXT: ^^
// CHECK-NEXT: %x is used before its definition

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %c = arith.constant 1.0 : f32
    %l = loops.load %c[i]
  }
}

// CHECK: %l = loops.load %c[i]
// CHECK-NEXT: ^^
// CHECK-NEXT: expected a node

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    loops.store 1.0, %x[i]
  }
}

// CHECK: loops.store 1.0, %x[i]
// CHECK-NEXT: ^
// CHECK-NEXT: expected an operand

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %l = loops.load %x
  }
}

// CHECK: }
// CHECK-NEXT: ^
// CHECK-NEXT: expected an index map `[...]`

// -----

// Values of one nest are not known in another.
loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "a" (i = 4) {
    %l = loops.load %x[i]
  }
  loops.nest "b" (i = 4) {
    loops.store %l, %x[i]
  }
}

// CHECK: loops.store %l, %x[i]
// CHECK-NEXT: ^^
// CHECK-NEXT: %l is used before its definition
