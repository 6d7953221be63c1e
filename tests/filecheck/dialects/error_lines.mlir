// RUN: ocannl-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// Errors say the line and the column of the file, also in its later parts.
// CHECK: error_lines.mlir:8:5: `loops.load`: 2 indices for 1 axes
loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %l = loops.load %x[i, i]
  }
}

// -----

// CHECK: error_lines.mlir:19:5: `loops.store`: stores f64 into a node of f32
loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %c = arith.constant 1.0 : f64
    loops.store %c, %x[i]
  }
}

// -----

// CHECK: error_lines.mlir:28:20
// CHECK-NEXT: %y = texpr.value %z
texpr.routine @r {
  %y = texpr.value %z : !texpr.tensor<f32>
}

// -----

// CHECK: %x = assign.node "x" on_device : memref<3xf80>
// CHECK-NEXT: ^^^
// CHECK-NEXT: floats have at most 64 bits, found f80
assign.routine @r {
  %x = assign.node "x" on_device : memref<3xf80>
}

// -----

// CHECK: %c = arith.constant dense<1.0> : tensor<2xf128>
// CHECK-NEXT: ^^^^
// CHECK-NEXT: floats have at most 64 bits, found f128
func.func @f() {
  %c = arith.constant dense<1.0> : tensor<2xf128>
}
