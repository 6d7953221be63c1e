// RUN: ocannl-opt %s --split-input-file -p plan-memory | filecheck %s

// Where `c` and `d` begin, `b` still lives, and `a` does not.
// CHECK-LABEL: loops.func @lifetimes attributes {arena = 192 : i64} {
// CHECK:         "x" on_device : memref<16xf32>
// CHECK:         "a" local at 0 because "intermediate value"
// CHECK:         "b" local at 64 because "intermediate value"
// CHECK:         "c" local at 0 because "intermediate value"
// CHECK:         "d" local at 128 because "intermediate value"
// CHECK:         "untouched" local because
// CHECK:         "gone" virtual because
loops.func @lifetimes {
  %x = assign.node "x" on_device : memref<16xf32>
  %a = assign.node "a" local because "intermediate value" : memref<16xf32>
  %b = assign.node "b" local because "intermediate value" : memref<16xf32>
  %c = assign.node "c" local because "intermediate value" : memref<16xf32>
  %d = assign.node "d" local because "intermediate value" : memref<3xf32>
  %untouched = assign.node "untouched" local because "intermediate value" : memref<16xf32>
  %gone = assign.node "gone" virtual because "never read" : memref<16xf32>
  loops.nest "a" (i = 16) {
    %v = loops.load %x[i]
    loops.store %v, %a[i]
  }
  loops.nest "b" (i = 16) {
    %v = loops.load %a[i]
    loops.store %v, %b[i]
  }
  loops.nest "c d" (i = 3) {
    %v = loops.load %b[i]
    loops.store %v, %c[i]
    loops.store %v, %d[i]
  }
  loops.nest "x" (i = 3) {
    %v = loops.load %c[i]
    %w = loops.load %d[i]
    %s = arith.addf %v, %w : f32
    loops.store %s, %x[i]
  }
}

// -----

// Blocks that were freed one after the other make room for a larger one.
// CHECK-LABEL: loops.func @joined attributes {arena = 128 : i64} {
// CHECK:         "a" local at 0 because
// CHECK:         "b" local at 64 because
// CHECK:         "c" local at 0 because
loops.func @joined {
  %x = assign.node "x" on_device : memref<32xf32>
  %a = assign.node "a" local because "intermediate value" : memref<16xf32>
  %b = assign.node "b" local because "intermediate value" : memref<f64>
  %c = assign.node "c" local because "intermediate value" : memref<32xf32>
  loops.nest "a" (i = 16) {
    %v = loops.load %x[i]
    loops.store %v, %a[i]
  }
  loops.nest "b" () {
    %v = loops.load %a[0]
    %w = arith.extf %v : f32 to f64
    loops.store %w, %b[]
  }
  loops.nest "x" (i = 32) {
    %v = loops.load %b[]
    %w = arith.truncf %v : f64 to f32
    loops.store %w, %x[i]
  }
  loops.nest "c" (i = 32) {
    %v = loops.load %x[i]
    loops.store %v, %c[i]
  }
}

// -----

// CHECK-LABEL: loops.func @nothing_local attributes {arena = 0 : i64} {
loops.func @nothing_local {
  %x = assign.node "x" on_device : memref<f32>
  loops.nest "x" () {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[]
  }
}
