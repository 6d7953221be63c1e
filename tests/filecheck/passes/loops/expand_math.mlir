// RUN: ocannl-opt %s -p expand-math | filecheck %s

// 2^n by the bits of the exponents of two factors, with x in the range of results that are neither 0 nor infinite: no
// product underflows where the result is 0, as it is for each masked score of attention. The polynomial is multiplied by
// both: of a NaN, no bits are changed.
// CHECK-LABEL: func.func @exp(
// CHECK-NOT:     math.exp
// CHECK:         [[IS_ZERO:%.*]] = arith.cmpf olt, %x, %{{.*}} : f32
// CHECK-NEXT:    [[ZERO:%.*]] = arith.constant 0.000000e+00 : f32
// CHECK:         [[HIGH:%.*]] = arith.cmpf ogt, %x, %{{.*}} : f32
// CHECK:         [[BELOW:%.*]] = arith.select [[HIGH]]
// CHECK:         [[X:%.*]] = arith.select [[IS_ZERO]], [[ZERO]], [[BELOW]]
// CHECK:         math.fma [[X]], %{{.*}}, %{{.*}} : f32
// CHECK:         arith.shli %{{.*}}, %{{.*}} : i32
// CHECK:         arith.shli %{{.*}}, %{{.*}} : i32
// CHECK:         [[PART:%.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:    [[POWER:%.*]] = arith.mulf [[PART]], %{{.*}} : f32
// CHECK-NEXT:    [[RESULT:%.*]] = arith.select [[IS_ZERO]], [[ZERO]], [[POWER]]
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

// One division where the quotient has few bits; the long division of the others is a function.
// CHECK-LABEL: func.func @remainder(
// CHECK:         [[RATIO:%.*]] = arith.divf %x, %y : f32
// CHECK:         [[SIZE:%.*]] = math.absf [[RATIO]] : f32
// CHECK:         math.trunc [[SIZE]] : f32
// CHECK:         [[FAR:%.*]] = arith.cmpf uge, [[SIZE]], {{%.*}} : f32
// CHECK-NEXT:    [[REST:%.*]] = loops.far [[FAR]] remainder({{%.*}}, {{%.*}}) else {{%.*}} : f32
// CHECK-NEXT:    [[SIGNED:%.*]] = math.copysign [[REST]], %x : f32
// CHECK-NEXT:    func.return [[SIGNED]]
func.func @remainder(%x : f32, %y : f32) -> f32 {
  %0 = loops.remainder %x, %y : f32
  func.return %0 : f32
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

// Threefry-4x32: a block of words for each place and counter, in arithmetic of 32 bits. Its two numbers share it.
// CHECK-LABEL: func.func @random(
// CHECK-SAME:    %place: i32, %counter: i64)
// CHECK-NEXT:    %{{.*}} = arith.constant 0 : i32
// CHECK-NEXT:    %{{.*}} = arith.constant 32 : i64
// CHECK-NEXT:    [[HIGH:%.*]] = arith.shrui %counter, %{{.*}} : i64
// CHECK-NEXT:    [[X2:%.*]] = arith.trunci %counter : i64 to i32
// CHECK-NEXT:    [[X3:%.*]] = arith.trunci [[HIGH]] : i64 to i32
// CHECK:         arith.addi %place, %{{.*}} : i32
// CHECK:         arith.shli
// CHECK:         arith.shrui
// CHECK-NEXT:    arith.ori
// CHECK-NEXT:    arith.xori
// CHECK:         arith.sitofp %{{.*}} : i32 to f32
// CHECK-NEXT:    [[UNIT:%.*]] = arith.constant 5.96046448e-08 : f32
// CHECK-NEXT:    [[FIRST:%.*]] = arith.mulf %{{.*}}, [[UNIT]] : f32
// CHECK-NEXT:    arith.shrui %{{.*}}, %{{.*}} : i32
// CHECK-NEXT:    arith.sitofp %{{.*}} : i32 to f32
// CHECK-NEXT:    [[SECOND:%.*]] = arith.mulf %{{.*}}, [[UNIT]] : f32
// CHECK-NEXT:    func.return [[FIRST]], [[SECOND]] : f32, f32
func.func @random(%place : i32, %counter : i64) -> (f32, f32) {
  %0 = loops.uniform "u#1" %place at %counter : f32
  %1 = loops.uniform "u#1" second %place at %counter : f32
  func.return %0, %1 : f32, f32
}

// In f64 a number has 53 bits of two words.
// CHECK-LABEL: func.func @random_of_53_bits(
// CHECK-NOT:     loops.uniform
// CHECK:         [[HIGH:%.*]] = arith.sitofp %{{.*}} : i32 to f64
// CHECK:         [[LOW:%.*]] = arith.sitofp %{{.*}} : i32 to f64
// CHECK:         math.fma [[HIGH]], %{{.*}}, [[LOW]] : f64
// CHECK:         [[NUMBER:%.*]] = arith.mulf
// CHECK-NEXT:    func.return [[NUMBER]] : f64
func.func @random_of_53_bits(%place : i64, %counter : i64) -> f64 {
  %0 = loops.uniform "u#1" %place at %counter : f64
  func.return %0 : f64
}
