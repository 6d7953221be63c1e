// RUN: ocannl-opt %s --split-input-file --verify-diagnostics -p infer-shapes,infer-precisions,infer-projections | filecheck %s
// RUN: ocannl-opt %s --split-input-file --verify-diagnostics -p infer-shapes,infer-precisions,infer-projections,lower-texpr-to-assign,lower-assign-to-loops | filecheck %s --check-prefix=LOOPS

// The axes of ids stand in the part in place of the first axis that they choose.
// CHECK-LABEL: texpr.routine @write indices (i = 4)
// CHECK:         texpr.assign %m[i, at$0, o1] by (%ids[o]) = %v[o, o1] over (o = 2, o1 = 3)
// CHECK-NEXT:    texpr.assign %m[at$0, at$1, o1] by (%ids[o], %one[]) add= %v[o, o1] over (o = 2, o1 = 3)
// CHECK-NEXT:    texpr.assign %m[i, o, at$0] by (%one[]) = %c[] over (o = 5)

// Where an id is no position, a cell keeps its value.
// LOOPS-LABEL: loops.func @write
// LOOPS:         loops.nest "m" (o = 2, o1 = 3) {
// LOOPS-NEXT:      %0 = loops.load %ids[o]
// LOOPS-NEXT:      %1, %2 = loops.position %0 below 5
// LOOPS-NEXT:      %3 = loops.load %v[o, o1]
// LOOPS-NEXT:      %4 = loops.load %m[i, %1, o1]
// LOOPS-NEXT:      %5 = arith.select %2, %3, %4 : f32
// LOOPS-NEXT:      loops.store %5, %m[i, %1, o1]
texpr.routine @write indices (i = 4) {
  %m = texpr.node "m" : !texpr.tensor<4, 5, 3, f32>
  %ids = texpr.data "ids" : !texpr.tensor<2 | i32>
  %one = texpr.data "one" : !texpr.tensor<i64>
  %v = texpr.data "v" : !texpr.tensor<2, 3, f32>
  %c = texpr.data "c" : !texpr.tensor<f32>
  texpr.assign %m at [... | ... -> i, <0 as 1>, ...] by (%ids) = %v logic "."
  texpr.assign %m at [... | ... -> <0 as 1>, <1>, ...] by (%ids, %one) add= %v logic "."
  texpr.assign %m at [... | ... -> i, ..., <0>] by (%one) = %c logic "."
}

// -----

texpr.routine @rank {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %ids = texpr.data "ids" : !texpr.tensor<2 | i32>
  %c = texpr.data "c" : !texpr.tensor<f32>
  // expected-error @below {{`ids` has 1 axes, not 2}}
  texpr.assign %m at [... | ... -> <0 as 2>, ...] by (%ids) = %c logic "."
}

// -----

texpr.routine @sum {
  %m = texpr.node "m" : !texpr.tensor<5, f32>
  %v = texpr.data "v" : !texpr.tensor<5, 2, f32>
  // expected-error @below {{a reduction over b accumulates}}
  texpr.assign %m = %v logic "a b => a"
}
