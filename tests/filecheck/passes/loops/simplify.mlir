// RUN: ocannl-opt %s --split-input-file -p simplify | filecheck %s

// CHECK-LABEL: loops.func @identities
// CHECK:         loops.nest "all" (i = 3) {
// CHECK-NEXT:      %x = loops.load %a[i]
// CHECK-NEXT:      loops.store %x, %o0[i]
// CHECK-NEXT:      loops.store %x, %o1[i]
// CHECK-NEXT:      loops.store %x, %o2[i]
// CHECK-NEXT:      loops.store %x, %o3[i]
// CHECK-NEXT:      loops.store %x, %o4[i]
// CHECK-NEXT:    }
loops.func @identities {
  %a = assign.node "a" on_device : memref<3xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  %o1 = assign.node "o1" on_device : memref<3xf32>
  %o2 = assign.node "o2" on_device : memref<3xf32>
  %o3 = assign.node "o3" on_device : memref<3xf32>
  %o4 = assign.node "o4" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %x = loops.load %a[i]
    %unused = loops.load %o4[i]
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %0 = arith.addf %zero, %x : f32
    %1 = arith.subf %0, %zero : f32
    loops.store %1, %o0[i]
    %2 = arith.mulf %one, %x : f32
    %3 = arith.divf %2, %one : f32
    loops.store %3, %o1[i]
    %4 = arith.negf %x : f32
    %5 = arith.negf %4 : f32
    loops.store %5, %o2[i]
    %true = arith.constant true
    %6 = arith.select %true, %x, %zero : f32
    loops.store %6, %o3[i]
    %low = arith.constant 0xFF800000 : f32
    %7 = arith.maximumf %x, %low : f32
    loops.store %7, %o4[i]
  }
}

// -----

// NaN, infinities and the signs of zeros survive. What starts an accumulation, a first summand of 0, does not.
// CHECK-LABEL: loops.func @not_identities
// CHECK:         arith.mulf %x, %zero
// CHECK:         arith.subf %x, %x
// CHECK:         arith.addf %x, %zero
// CHECK:         [[NEGATED:%.*]] = arith.negf %{{.*}} : f32
// CHECK-NEXT:    loops.store [[NEGATED]], %o3[i]
// CHECK:         math.fma %x, %x, %zero
// CHECK:         %nan = arith.constant {{.*}} : f32
// CHECK-NEXT:    loops.store %nan, %o5[i]
loops.func @not_identities {
  %a = assign.node "a" on_device : memref<3xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  %o1 = assign.node "o1" on_device : memref<3xf32>
  %o2 = assign.node "o2" on_device : memref<3xf32>
  %o3 = assign.node "o3" on_device : memref<3xf32>
  %o4 = assign.node "o4" on_device : memref<3xf32>
  %o5 = assign.node "o5" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %x = loops.load %a[i]
    %zero = arith.constant 0.0 : f32
    %0 = arith.mulf %x, %zero : f32
    loops.store %0, %o0[i]
    %1 = arith.subf %x, %x : f32
    loops.store %1, %o1[i]
    %2 = arith.addf %x, %zero : f32
    loops.store %2, %o2[i]
    %3 = arith.subf %x, %0 : f32
    %4 = arith.negf %3 : f32
    loops.store %4, %o3[i]
    %5 = math.fma %x, %x, %zero : f32
    loops.store %5, %o4[i]
    %nan = arith.constant 0x7FC00000 : f32
    %6 = arith.maximumf %x, %nan : f32
    loops.store %6, %o5[i]
  }
}

// -----

// Constants in the precision of the operation: 2^24 + 1 is 2^24 in f32. What a type cannot hold is left alone.
// CHECK-LABEL: loops.func @constants
// CHECK:         %sum = arith.constant 0x4B800000 : f32
// CHECK:         arith.mulf %huge, %huge : f32
// CHECK:         [[HALF:%.*]] = arith.constant 5.000000e-01 : f32
// CHECK:         arith.mulf %x, [[HALF]] : f32
// CHECK:         arith.divf %x, %three : f32
loops.func @constants {
  %a = assign.node "a" on_device : memref<3xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  %o1 = assign.node "o1" on_device : memref<3xf32>
  %o2 = assign.node "o2" on_device : memref<3xf32>
  %o3 = assign.node "o3" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %c1 = arith.constant 16777216.0 : f32
    %c2 = arith.constant 1.0 : f32
    %sum = arith.addf %c1, %c2 : f32
    loops.store %sum, %o0[i]
    %huge = arith.constant 1.0e+38 : f32
    %overflow = arith.mulf %huge, %huge : f32
    loops.store %overflow, %o1[i]
    %x = loops.load %a[i]
    %two = arith.constant 2.0 : f32
    %half = arith.divf %x, %two : f32
    loops.store %half, %o2[i]
    %three = arith.constant 3.0 : f32
    %third = arith.divf %x, %three : f32
    loops.store %third, %o3[i]
  }
}

// -----

// A product that only a sum needs is fused with it.
// CHECK-LABEL: loops.func @fma
// CHECK:         [[RATE:%.*]] = arith.constant -1.000000e-01 : f32
// CHECK:         [[STEP:%.*]] = math.fma [[RATE]], %g, %w : f32
// CHECK:         loops.store [[STEP]], %a[i]
// CHECK:         %p = arith.mulf %g, %w : f32
// CHECK:         arith.addf %p, %w : f32
loops.func @fma {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<3xf32>
  %c = assign.node "c" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %w = loops.load %a[i]
    %g = loops.load %b[i]
    %rate = arith.constant 0.1 : f32
    %step = arith.mulf %rate, %g : f32
    %0 = arith.subf %w, %step : f32
    loops.store %0, %a[i]
    %p = arith.mulf %g, %w : f32
    %1 = arith.addf %p, %w : f32
    loops.store %1, %b[i]
    loops.store %p, %c[i]
  }
}

// -----

// CHECK-LABEL: loops.func @signs
// CHECK:         arith.addf %x, %y : f32
// CHECK:         arith.subf %y, %x : f32
// CHECK:         arith.subf %zero, %y : f32
// CHECK:         math.absf %x : f32
loops.func @signs {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<3xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  %o1 = assign.node "o1" on_device : memref<3xf32>
  %o2 = assign.node "o2" on_device : memref<3xf32>
  %o3 = assign.node "o3" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %x = loops.load %a[i]
    %y = loops.load %b[i]
    %zero = arith.constant 0.0 : f32
    %minus_x = arith.negf %x : f32
    %minus_y = arith.negf %y : f32
    %0 = arith.subf %x, %minus_y : f32
    loops.store %0, %o0[i]
    %1 = arith.addf %minus_x, %y : f32
    loops.store %1, %o1[i]
    %2 = arith.subf %zero, %y : f32
    loops.store %2, %o2[i]
    %3 = math.absf %minus_x : f32
    loops.store %3, %o3[i]
  }
}

// -----

// A truth that became a number and a truth again; a condition of constants.
// CHECK-LABEL: loops.func @truths
// CHECK:         [[BIT:%.*]] = arith.cmpf olt, %x, %y : f32
// CHECK-NEXT:    [[LESS:%.*]] = arith.select [[BIT]], %x, %y : f32
// CHECK-NEXT:    loops.store [[LESS]], %o0[i]
// CHECK-NEXT:    [[MORE:%.*]] = arith.select [[BIT]], %y, %x : f32
// CHECK-NEXT:    loops.store [[MORE]], %o1[i]
// CHECK-NEXT:    loops.store %y, %o2[i]
loops.func @truths {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<3xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  %o1 = assign.node "o1" on_device : memref<3xf32>
  %o2 = assign.node "o2" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %x = loops.load %a[i]
    %y = loops.load %b[i]
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %bit = arith.cmpf olt, %x, %y : f32
    %number = arith.uitofp %bit : i1 to f32
    %again = arith.cmpf une, %number, %zero : f32
    %0 = arith.select %again, %x, %y : f32
    loops.store %0, %o0[i]
    %not = arith.cmpf oeq, %number, %zero : f32
    %1 = arith.select %not, %x, %y : f32
    loops.store %1, %o1[i]
    %never = arith.cmpf ogt, %zero, %one : f32
    %2 = arith.select %never, %x, %y : f32
    loops.store %2, %o2[i]
  }
}

// -----

// Variables of size 1 go, and with them reductions that have no others. A maximum over values that do not vary is
// one of them; a sum is not.
// CHECK-LABEL: loops.func @variables
// CHECK:         loops.nest "all" (i = 3) {
// CHECK-NEXT:      [[X:%.*]] = loops.load %a[i, 0]
// CHECK-NEXT:      loops.store [[X]], %o0[i]
// CHECK-NEXT:      [[Y:%.*]] = loops.load %a[i, 0]
// CHECK-NEXT:      loops.store [[Y]], %o1[i]
// CHECK-NEXT:      loops.reduce add (k = 4) : f32 {
loops.func @variables {
  %a = assign.node "a" on_device : memref<3x1xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  %o1 = assign.node "o1" on_device : memref<3xf32>
  %o2 = assign.node "o2" on_device : memref<3xf32>
  loops.nest "all" (i = 3, j = 1) {
    %0 = loops.reduce add (k = 1) : f32 {
      %x = loops.load %a[i, j + k]
      loops.yield %x
    }
    loops.store %0, %o0[i]
    %1 = loops.reduce max (k = 4) : f32 {
      %x = loops.load %a[i, j]
      loops.yield %x
    }
    loops.store %1, %o1[i]
    %2 = loops.reduce add (k = 4) : f32 {
      %x = loops.load %a[i, j]
      loops.yield %x
    }
    loops.store %2, %o2[i]
  }
}

// Small floats are rounded where that is seen, and not twice.
// CHECK-LABEL: loops.func @small
// CHECK:         loops.nest "rounded" (i = 4) {
// CHECK-NEXT:      [[X:%.*]] = loops.load %x[i]
// CHECK-NEXT:      [[W:%.*]] = arith.extf [[X]] : bf16 to f32
// CHECK-NEXT:      loops.store [[X]], %y[i]
// CHECK-NEXT:      [[TENTH:%.*]] = arith.constant 0.100097656 : f32
// CHECK-NEXT:      [[P:%.*]] = arith.mulf [[W]], [[TENTH]] : f32
// CHECK-NEXT:      [[N:%.*]] = arith.truncf [[P]] : f32 to bf16
// CHECK-NEXT:      [[V:%.*]] = arith.extf [[N]] : bf16 to f32
// CHECK-NEXT:      loops.store [[V]], %z[i]
loops.func @small {
  %x = assign.node "x" on_device : memref<4xbf16>
  %y = assign.node "y" on_device : memref<4xbf16>
  %z = assign.node "z" on_device : memref<4xf32>
  loops.nest "rounded" (i = 4) {
    %a = loops.load %x[i]
    %w = arith.extf %a : bf16 to f32
    %b = arith.truncf %w : f32 to bf16
    loops.store %b, %y[i]
    %c = arith.constant 0.1 : f32
    %d = arith.truncf %c : f32 to bf16
    %e = arith.extf %d : bf16 to f32
    %p = arith.mulf %w, %e : f32
    %n = arith.truncf %p : f32 to bf16
    %v = arith.extf %n : bf16 to f32
    loops.store %v, %z[i]
  }
}

// The greatest of small floats is one of them: it is not rounded.
// CHECK-LABEL: loops.func @greatest
// CHECK:         loops.nest "most" () {
// CHECK-NEXT:      [[M:%.*]] = loops.reduce max (i = 4) : f32 {
// CHECK:         loops.store [[M]], %y[0]
// CHECK-NEXT:      [[S:%.*]] = loops.reduce add (i = 4) : f32 {
// CHECK:           [[N:%.*]] = arith.truncf [[S]] : f32 to bf16
// CHECK-NEXT:      [[V:%.*]] = arith.extf [[N]] : bf16 to f32
// CHECK-NEXT:      loops.store [[V]], %z[0]
loops.func @greatest {
  %x = assign.node "x" on_device : memref<4xbf16>
  %y = assign.node "y" on_device : memref<1xf32>
  %z = assign.node "z" on_device : memref<1xf32>
  loops.nest "most" () {
    %m = loops.reduce max (i = 4) : f32 {
      %a = loops.load %x[i]
      %w = arith.extf %a : bf16 to f32
      loops.yield %w
    }
    %n = arith.truncf %m : f32 to bf16
    %v = arith.extf %n : bf16 to f32
    loops.store %v, %y[0]
    %s = loops.reduce add (i = 4) : f32 {
      %a = loops.load %x[i]
      %w = arith.extf %a : bf16 to f32
      loops.yield %w
    }
    %t = arith.truncf %s : f32 to bf16
    %u = arith.extf %t : bf16 to f32
    loops.store %u, %z[0]
  }
}

// A product in place of a quotient by a power of two, if its reciprocal is normal in every type of floats.
// CHECK-LABEL: loops.func @quotients {
// CHECK:         %[[SMALL:.*]] = arith.constant 1.57772181e-30 : f32
// CHECK-NEXT:    %a = arith.mulf %v, %[[SMALL]] : f32
// CHECK-NEXT:    %b = arith.divf %v, %too_large : f32
// CHECK-NEXT:    %[[LARGE:.*]] = arith.constant 6.338253e+29 : f32
// CHECK-NEXT:    %c = arith.mulf %v, %[[LARGE]] : f32
// CHECK-NEXT:    %d = arith.divf %v, %too_small : f32
// CHECK-NEXT:    %e = arith.divf %v, %no_power : f32
// CHECK-NEXT:    %[[NEGATIVE:.*]] = arith.constant -1.250000e-01 : f32
// CHECK-NEXT:    %f = arith.mulf %v, %[[NEGATIVE]] : f32
loops.func @quotients {
  %x = assign.node "x" on_device : memref<4xf32>
  %y = assign.node "y" on_device : memref<4x6xf32>
  loops.nest "y" (i = 4) {
    %v = loops.load %x[i]
    %large = arith.constant 6.338253e+29 : f32
    %too_large = arith.constant 1.2676506e+30 : f32
    %small = arith.constant 1.5777218e-30 : f32
    %too_small = arith.constant 7.888609e-31 : f32
    %no_power = arith.constant 3.0 : f32
    %negative = arith.constant -8.0 : f32
    %a = arith.divf %v, %large : f32
    %b = arith.divf %v, %too_large : f32
    %c = arith.divf %v, %small : f32
    %d = arith.divf %v, %too_small : f32
    %e = arith.divf %v, %no_power : f32
    %f = arith.divf %v, %negative : f32
    loops.store %a, %y[i, 0]
    loops.store %b, %y[i, 1]
    loops.store %c, %y[i, 2]
    loops.store %d, %y[i, 3]
    loops.store %e, %y[i, 4]
    loops.store %f, %y[i, 5]
  }
}

// CHECK-LABEL: loops.func @quotients_of_constants {
// CHECK:         %a = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:    %b = arith.constant -2.000000e+00 : f32
// CHECK-NEXT:    %c = arith.divf %six, %zero : f32
loops.func @quotients_of_constants {
  %y = assign.node "y" on_device : memref<3xf32>
  loops.nest "y" () {
    %six = arith.constant 6.0 : f32
    %three = arith.constant 3.0 : f32
    %minus = arith.constant -3.0 : f32
    %zero = arith.constant 0.0 : f32
    %a = arith.divf %six, %three : f32
    %b = arith.divf %six, %minus : f32
    %c = arith.divf %six, %zero : f32
    loops.store %a, %y[0]
    loops.store %b, %y[1]
    loops.store %c, %y[2]
  }
}
