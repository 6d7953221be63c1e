// RUN: ocannl-opt %s -p approximate-rounded | filecheck %s

// What is rounded to 16 bits at once: but the error of a tanh is too large for f16.
loops.func @at_once {
  %x = assign.node "x" constant because "data" : memref<10xf32>
  %y = assign.node "y" constant because "data" : memref<10xf32>
  %a = assign.node "a" on_device because "result" : memref<10xbf16>
  %b = assign.node "b" on_device because "result" : memref<10xf16>
  loops.nest "a" (i = 10) {
    %0 = loops.load %x[i]
    %1 = loops.load %y[i]
    %2 = arith.divf %0, %1 : f32
    %3 = arith.truncf %2 : f32 to bf16
    loops.store %3, %a[i]
    %4 = math.tanh %0 : f32
    %5 = arith.truncf %4 : f32 to bf16
    loops.store %5, %a[i]
    %6 = math.tanh %1 : f32
    %7 = arith.truncf %6 : f32 to f16
    loops.store %7, %b[i]
    %8 = math.erf %0 : f32
    %9 = arith.truncf %8 : f32 to f16
    loops.store %9, %b[i]
  }
}
// CHECK-LABEL: loops.func @at_once {
// CHECK:           arith.divf %{{.*}}, %{{.*}} fastmath<afn> : f32
// CHECK:           math.tanh %{{.*}} fastmath<afn> : f32
// CHECK:           math.tanh %{{.*}} fastmath<arcp> : f32
// CHECK:           math.erf %{{.*}} fastmath<afn> : f32

// An exponential is the square of that of the half, whose result is no subnormal number. A sigmoid is rounded at its end.
loops.func @sigmoid {
  %x = assign.node "x" constant because "data" : memref<10xf32>
  %y = assign.node "y" on_device because "result" : memref<10xbf16>
  loops.nest "y" (i = 10) {
    %0 = loops.load %x[i]
    %1 = arith.constant 1.0 : f32
    %2 = math.absf %0 : f32
    %3 = arith.negf %2 : f32
    %4 = math.exp %3 : f32
    %5 = arith.constant 0.0 : f32
    %6 = arith.cmpf olt, %0, %5 : f32
    %7 = arith.select %6, %4, %1 : f32
    %8 = arith.addf %1, %4 : f32
    %9 = arith.divf %7, %8 : f32
    %10 = arith.truncf %9 : f32 to bf16
    loops.store %10, %y[i]
  }
}
// CHECK-LABEL: loops.func @sigmoid {
// CHECK:           %[[HALF:.*]] = arith.constant 0.721347511 : f32
// CHECK-NEXT:      %[[EXPONENT:.*]] = arith.mulf %{{.*}}, %[[HALF]] : f32
// CHECK-NEXT:      %[[ROOT:.*]] = math.exp2 %[[EXPONENT]] fastmath<afn> : f32
// CHECK-NEXT:      arith.mulf %[[ROOT]], %[[ROOT]] : f32
// CHECK-NOT:       math.exp %
// CHECK:           arith.divf %{{.*}}, %{{.*}} fastmath<afn> : f32

// Beside another number, a quotient and a tanh have errors as arithmetic has; those of an exponential and `erf` are larger.
loops.func @summands {
  %x = assign.node "x" constant because "data" : memref<10xf32>
  %y = assign.node "y" on_device because "result" : memref<10xbf16>
  loops.nest "y" (i = 10) {
    %0 = loops.load %x[i]
    %1 = math.erf %0 : f32
    %2 = math.tanh %0 : f32
    %3 = math.exp %0 : f32
    %4 = arith.divf %2, %3 : f32
    %5 = math.fma %0, %1, %4 : f32
    %6 = arith.truncf %5 : f32 to bf16
    loops.store %6, %y[i]
  }
}
// CHECK-LABEL: loops.func @summands {
// CHECK:           math.erf %{{.*}} : f32
// CHECK-NEXT:      math.tanh %{{.*}} fastmath<arcp> : f32
// CHECK-NEXT:      math.exp %{{.*}} : f32
// CHECK-NEXT:      arith.divf %{{.*}}, %{{.*}} fastmath<afn> : f32

// What is also stored as it is, decides something, or is summed up in f32, stays exact; and so does f64.
loops.func @exact {
  %x = assign.node "x" constant because "data" : memref<10xf32>
  %w = assign.node "w" constant because "data" : memref<10xf64>
  %y = assign.node "y" on_device because "result" : memref<10xbf16>
  %z = assign.node "z" on_device because "result" : memref<10xf32>
  %v = assign.node "v" on_device because "result" : memref<10xf64>
  loops.nest "y" (i = 10) {
    %0 = loops.load %x[i]
    %1 = math.exp %0 : f32
    %2 = arith.truncf %1 : f32 to bf16
    loops.store %2, %y[i]
    loops.store %1, %z[i]
    %3 = math.tanh %0 : f32
    %4 = arith.cmpf olt, %3, %0 : f32
    %5 = arith.extui %4 : i1 to i32
    %13 = arith.sitofp %5 : i32 to f32
    %14 = arith.truncf %13 : f32 to bf16
    loops.store %14, %y[i]
    %6 = loops.reduce add (j = 10) : f32 {
      %7 = loops.load %x[j]
      %8 = arith.divf %7, %0 : f32
      loops.yield %8
    }
    %9 = arith.truncf %6 : f32 to bf16
    loops.store %9, %y[i]
    %10 = loops.load %w[i]
    %11 = math.exp %10 : f64
    %12 = arith.truncf %11 : f64 to bf16
    loops.store %12, %y[i]
  }
}
// CHECK-LABEL: loops.func @exact {
// CHECK-NOT:       fastmath
