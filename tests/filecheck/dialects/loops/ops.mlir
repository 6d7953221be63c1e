// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

// CHECK-LABEL: loops.func @nests indices (step_n, batch_n = 80) {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<80x10x2xf32>
// CHECK-NEXT:    %h = assign.node "h" on_device : memref<10x16xf32>
// CHECK-NEXT:    %z = assign.node "z" local at 128 because "intermediate value" : memref<f32>
// CHECK-NEXT:    loops.nest "h" (b = 10, o = 16) {
// CHECK-NEXT:      %s = loops.index 3*b - batch_n + 2*step_n : f32
// CHECK-NEXT:      %t = loops.reduce add (i = 2) : f32 {
// CHECK-NEXT:        %l = loops.load %x[batch_n, b, i]
// CHECK-NEXT:        %m = loops.reduce max (j = 3, k = 2) : f32 {
// CHECK-NEXT:          %v = loops.load %x[j, -b + 9, k]
// CHECK-NEXT:          %p = arith.mulf %v, %l : f32
// CHECK-NEXT:          loops.yield %p
// CHECK-NEXT:        }
// CHECK-NEXT:        loops.yield %m
// CHECK-NEXT:      }
// CHECK-NEXT:      %u = arith.addf %t, %s : f32
// CHECK-NEXT:      loops.store %u, %h[-b + 9, o]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "random" (i = 10, j = 16) {
// CHECK-NEXT:      %place = loops.index 16*i + j : i32
// CHECK-NEXT:      %counter = loops.index step_n : i64
// CHECK-NEXT:      %a = loops.uniform "u#1" %place at %counter : f32
// CHECK-NEXT:      %b = loops.uniform "u#1" second %counter at %counter : f64
// CHECK-NEXT:      loops.store %a, %h[i, j] nontemporal
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "point" () {
// CHECK-NEXT:      %c = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      loops.store %c, %z[]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "no points" (i = 0) {
// CHECK-NEXT:      %d = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      loops.store %d, %h[i, i]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "nothing" (i = 3) {
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @nests indices (step_n, batch_n = 80) {
  %x = assign.node "x" constant : memref<80x10x2xf32>
  %h = assign.node "h" on_device : memref<10x16xf32>
  %z = assign.node "z" local at 128 because "intermediate value" : memref<f32>
  loops.nest "h" (b = 10, o = 16) {
    %s = loops.index 3*b - batch_n + 2*step_n : f32
    %t = loops.reduce add (i = 2) : f32 {
      %l = loops.load %x[batch_n, b, i]
      %m = loops.reduce max (j = 3, k = 2) : f32 {
        %v = loops.load %x[j, -b + 9, k]
        %p = arith.mulf %v, %l : f32
        loops.yield %p
      }
      loops.yield %m
    }
    %u = arith.addf %t, %s : f32
    loops.store %u, %h[-b + 9, o]
  }
  loops.nest "random" (i = 10, j = 16) {
    %place = loops.index 16*i + j : i32
    %counter = loops.index step_n : i64
    %a = loops.uniform "u#1" %place at %counter : f32
    %b = loops.uniform "u#1" second %counter at %counter : f64
    loops.store %a, %h[i, j] nontemporal
  }
  loops.nest "point" () {
    %c = arith.constant 1.000000e+00 : f32
    loops.store %c, %z[]
  }
  loops.nest "no points" (i = 0) {
    %d = arith.constant 1.000000e+00 : f32
    loops.store %d, %h[i, i]
  }
  loops.nest "nothing" (i = 3) {
  }
}

// CHECK-LABEL: loops.func @empty {
// CHECK-NEXT:  }
loops.func @empty {
}

// CHECK-LABEL: loops.func @groups {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<6x8xf32>
// CHECK-NEXT:    %y = assign.node "y" on_device : memref<6x8xf32>
// CHECK-NEXT:    loops.group "m .. y" (b_block = 3) {
// CHECK-NEXT:      %m = assign.node "m" local because "intermediate value" : memref<2xf32>
// CHECK-NEXT:      loops.nest "m" (b = 2) {
// CHECK:           loops.nest "y" (b = 2, o = 8) {
// CHECK-NEXT:        %v_1 = loops.load %x[b + 2*b_block, o]
// CHECK:         loops.group "nothing" () {
// CHECK-NEXT:    }
loops.func @groups {
  %x = assign.node "x" constant : memref<6x8xf32>
  %y = assign.node "y" on_device : memref<6x8xf32>
  loops.group "m .. y" (b_block = 3) {
    %m = assign.node "m" local because "intermediate value" : memref<2xf32>
    loops.nest "m" (b = 2) {
      %r = loops.reduce max (o = 8) : f32 {
        %v = loops.load %x[2*b_block + b, o]
        loops.yield %v
      }
      loops.store %r, %m[b]
    }
    loops.nest "y" (b = 2, o = 8) {
      %v = loops.load %x[2*b_block + b, o]
      %r = loops.load %m[b]
      %d = arith.subf %v, %r : f32
      loops.store %d, %y[2*b_block + b, o]
    }
  }
  loops.group "nothing" () {
  }
}

// Positions stand in the map in any place and number.
// CHECK-LABEL: loops.func @positions
// CHECK:         loops.nest "x" (b = 4) {
// CHECK-NEXT:      %id = loops.load %ids[b]
// CHECK-NEXT:      %v, %inside = loops.position %id below 3
// CHECK-NEXT:      %w, %too = loops.position %id below 8
// CHECK-NEXT:      %l = loops.load %x[b, %v, 2*%v + %w + 1]
// CHECK-NEXT:      loops.store %l, %x[b, -%v + 2, %w]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @positions {
  %ids = assign.node "ids" constant : memref<4xf64>
  %x = assign.node "x" on_device : memref<4x3x13xf32>
  loops.nest "x" (b = 4) {
    %id = loops.load %ids[b]
    %v, %inside = loops.position %id below 3
    %w, %too = loops.position %id below 8
    %l = loops.load %x[b, %v, 2*%v + %w + 1]
    loops.store %l, %x[b, -%v + 2, %w]
  }
}
