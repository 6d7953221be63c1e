// RUN: ocannl-opt %s -p expand-math | filecheck %s

// 2^n by the bits of the exponent, saturated on both sides.
// CHECK-LABEL: func.func @exp(
// CHECK-NOT:     math.exp
// CHECK:         math.fma %x, %{{.*}}, %{{.*}} : f32
// CHECK:         arith.shli %{{.*}}, %{{.*}} : i32
// CHECK:         [[HIGH:%.*]] = arith.cmpf oge, %x, %{{.*}} : f32
// CHECK:         arith.select [[HIGH]]
// CHECK:         [[LOW:%.*]] = arith.cmpf olt, %x, %{{.*}} : f32
// CHECK:         [[RESULT:%.*]] = arith.select [[LOW]]
// CHECK-NEXT:    func.return [[RESULT]] : f32
func.func @exp(%x : f32) -> f32 {
  %0 = math.exp %x : f32
  func.return %0 : f32
}

// CHECK-LABEL: func.func @all(
// CHECK-NOT:     math.{{exp|exp2|log|log2|sin|cos|tanh|erf|powf}} %
// CHECK:         func.return %{{.*}} : f64
func.func @all(%x : f64) -> f64 {
  %0 = math.exp %x : f64
  %1 = math.exp2 %0 : f64
  %2 = math.log %1 : f64
  %3 = math.log2 %2 : f64
  %4 = math.sin %3 : f64
  %5 = math.cos %4 : f64
  %6 = math.tanh %5 : f64
  %7 = math.erf %6 : f64
  %8 = math.powf %7, %x : f64
  func.return %8 : f64
}

// What is one instruction, and what is not a scalar, stays.
// CHECK-LABEL: func.func @kept(
// CHECK-NEXT:    math.sqrt %x : f32
// CHECK-NEXT:    math.exp %v : vector<4xf32>
// CHECK-NEXT:    func.return
func.func @kept(%x : f32, %v : vector<4xf32>) {
  %0 = math.sqrt %x : f32
  %1 = math.exp %v : vector<4xf32>
  func.return
}
