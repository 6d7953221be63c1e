// RUN: ocannl-opt %s -p inline-nodes | filecheck %s --check-prefix INLINE
// RUN: ocannl-opt %s -p fuse | filecheck %s --check-prefix FUSE
// RUN: ocannl-opt %s -p reuse-reductions | filecheck %s --check-prefix REUSE
// RUN: ocannl-opt %s -p order-nests | filecheck %s --check-prefix ORDER
// RUN: ocannl-opt %s -p plan-memory | filecheck %s --check-prefix PLAN

// To passes, a loop is a step that reads and writes what it is given.

loops.func @step indices (t = 4) {
  %h = assign.node "h" on_device : memref<8xf32>
  %c = assign.node "c" on_device : memref<8xf32>
  %new = assign.node "new" local : memref<8xf32>
  loops.nest "new" (i = 8) {
    %0 = loops.load %h[-i + 7]
    %1 = loops.load %c[i]
    %2 = arith.addf %0, %1 : f32
    loops.store %2, %new[i]
  }
  loops.nest "h" (i = 8) {
    %0 = loops.load %new[i]
    loops.store %0, %h[i]
  }
}

// A loop that writes nothing that is read goes, with its body.
// INLINE-NOT: @unused
// FUSE-NOT: @unused
loops.func @unused indices (t = 4) {
  %h = assign.node "h" on_device : memref<8xf32>
  loops.nest "h" (i = 8) {
    %0 = loops.index t : f32
    loops.store %0, %h[i]
  }
}

// Values from before a loop are not those after it, and what it is given stays in memory.
// INLINE-LABEL: loops.func @main
// INLINE:         %twice = assign.node "twice" local
// INLINE:         loops.nest "twice" (i = 8) {
// INLINE:         loops.repeat @step t = 4 ("h" = %h, "c" = %twice)
// INLINE-NEXT:    loops.nest "last" (i = 8) {
// INLINE-NEXT:      %[[H:.*]] = loops.load %h[i]

// Nests move past a loop only if they do not depend on it.
// FUSE-LABEL: loops.func @main
// FUSE:         loops.nest "h" (i = 8) {
// FUSE:         loops.nest "twice .. other" (i = 8) {
// FUSE:         loops.repeat @step t = 4
// FUSE-NEXT:    loops.nest "last" (i = 8) {

// REUSE-LABEL: loops.func @main
// REUSE:         loops.nest "before" () {
// REUSE:           loops.reduce add (i = 8)
// REUSE:         loops.nest "after" () {
// REUSE-NEXT:      loops.reduce add (i = 8)
// REUSE:         loops.nest "again" () {
// REUSE-NEXT:      loops.load %after[]

// ORDER-LABEL: loops.func @main
// ORDER:         loops.nest "twice"
// ORDER:         loops.repeat @step t = 4
// ORDER:         loops.nest "last"

// PLAN-LABEL: loops.func @step indices (t = 4) attributes {arena = 64 : i64}
// PLAN-LABEL: loops.func @main attributes {arena = 192 : i64}
// PLAN:         %arena = assign.node "step.arena" local at 128 because "arena of @step" : memref<64xi8>
// PLAN:         loops.repeat @step t = 4 ("h" = %h, "c" = %twice) workspace %arena
loops.func @main {
  %x = assign.node "x" on_device : memref<8xf32>
  %h = assign.node "h" local : memref<8xf32>
  %twice = assign.node "twice" local : memref<8xf32>
  %lost = assign.node "lost" local : memref<8xf32>
  %last = assign.node "last" on_device : memref<8xf32>
  %other = assign.node "other" on_device : memref<8xf32>
  %before = assign.node "before" on_device : memref<f32>
  %after = assign.node "after" on_device : memref<f32>
  %again = assign.node "again" on_device : memref<f32>
  loops.nest "h" (i = 8) {
    %0 = arith.constant 0.0 : f32
    loops.store %0, %h[i]
  }
  loops.nest "before" () {
    %0 = loops.reduce add (i = 8) : f32 {
      %1 = loops.load %h[i]
      loops.yield %1
    }
    loops.store %0, %before[]
  }
  loops.nest "twice" (i = 8) {
    %0 = loops.load %x[i]
    %1 = arith.addf %0, %0 : f32
    loops.store %1, %twice[i]
  }
  loops.repeat @unused t = 4 ("h" = %lost)
  loops.repeat @step t = 4 ("h" = %h, "c" = %twice)
  loops.nest "last" (i = 8) {
    %0 = loops.load %h[i]
    %1 = loops.load %twice[i]
    %2 = arith.addf %0, %1 : f32
    loops.store %2, %last[i]
  }
  loops.nest "other" (i = 8) {
    %0 = loops.load %x[i]
    loops.store %0, %other[i]
  }
  loops.nest "after" () {
    %0 = loops.reduce add (i = 8) : f32 {
      %1 = loops.load %h[i]
      loops.yield %1
    }
    loops.store %0, %after[]
  }
  loops.nest "again" () {
    %0 = loops.reduce add (i = 8) : f32 {
      %1 = loops.load %h[i]
      loops.yield %1
    }
    loops.store %0, %again[]
  }
}
