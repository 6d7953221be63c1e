// RUN: ocannl-opt %s --print-debuginfo | filecheck %s
// RUN: ocannl-opt %s --print-debuginfo --print-op-generic | ocannl-opt --print-debuginfo | filecheck %s

// Every operation knows its line and column, or what the text says of it.
// CHECK-LABEL: texpr.routine @expressions
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<f32> loc("{{.*}}locations.mlir":9:3)
// CHECK-NEXT:    %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<f32> loc("model.py":7:0)
texpr.routine @expressions {
  %x = texpr.data "x" : !texpr.tensor<f32>
  %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<f32> loc("model.py":7:0)
} loc("model.py":1:0)
// CHECK-NEXT:  } loc("model.py":1:0)

// CHECK-NEXT:  loops.func @nests
loops.func @nests {
  loops.nest "n" (i = 2) {
    // CHECK: %c = arith.constant 1.000000e+00 : f32 loc("{{.*}}locations.mlir":18:8)
       %c = arith.constant 1.0 : f32
    // CHECK-NEXT: } loc("model.py":8:0)
  } loc("model.py":8:0)
  // CHECK-NEXT: } loc("{{.*}}locations.mlir":15:1)
}
