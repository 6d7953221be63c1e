// RUN: ocannl-opt %s --cpu x86-64-v3 -t llvm | filecheck %s

// A bf16 whose sign alone changes, or that is chosen among such, is the upper half of its f32: nothing is rounded.
loops.func @chosen {
  %x = assign.node "x" constant : memref<8xbf16>
  %y = assign.node "y" on_device : memref<8xbf16>
  loops.nest "y" (i = 8) schedule <order = (i), lanes = i : 8> {
    %b = loops.load %x[i]
    %v = arith.extf %b : bf16 to f32
    %n = arith.negf %v : f32
    %z = arith.constant 1.5 : f32
    %m = arith.maximumf %n, %z : f32
    %r = arith.truncf %m : f32 to bf16
    loops.store %r, %y[i]
  }
}
// CHECK-LABEL: @"chosen.y"
// CHECK:      [[WORDS:%.*]] = bitcast <8 x float> %{{.*}} to <8 x i32>
// CHECK-NEXT: [[HALVES:%.*]] = lshr <8 x i32> [[WORDS]], splat (i32 16)
// CHECK-NEXT: trunc <8 x i32> [[HALVES]] to <8 x i16>

// No bf16 is 1.1.
loops.func @rounded {
  %x = assign.node "x" constant : memref<8xbf16>
  %y = assign.node "y" on_device : memref<8xbf16>
  loops.nest "y" (i = 8) schedule <order = (i), lanes = i : 8> {
    %b = loops.load %x[i]
    %v = arith.extf %b : bf16 to f32
    %z = arith.constant 1.1 : f32
    %m = arith.maximumf %v, %z : f32
    %r = arith.truncf %m : f32 to bf16
    loops.store %r, %y[i]
  }
}
// CHECK-LABEL: @"rounded.y"
// CHECK: add <8 x i32> %{{.*}}, splat (i32 32767)
