# needs: sklearn
"""An sklearn estimator of one's own around a torch MLP: GridSearchCV over a pipeline, in the training cell."""
import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

torch.manual_seed(5)
X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

# %%
class TorchMLP(ClassifierMixin, BaseEstimator):
    def __init__(self, hidden=16, lr=0.01, epochs=15, seed=0):
        self.hidden, self.lr, self.epochs, self.seed = hidden, lr, epochs, seed

    def fit(self, X, y):
        torch.manual_seed(self.seed)
        self.device_ = "cuda" if torch.cuda.is_available() else "cpu"
        self.classes_ = np.unique(y)
        self.model_ = torch.nn.Sequential(
            torch.nn.Linear(X.shape[1], self.hidden), torch.nn.ReLU(), torch.nn.Linear(self.hidden, len(self.classes_))
        ).to(self.device_)
        optimizer = torch.optim.Adam(self.model_.parameters(), lr=self.lr)
        xs = torch.as_tensor(X, dtype=torch.float32, device=self.device_)
        ys = torch.as_tensor(np.searchsorted(self.classes_, y), device=self.device_)
        self.losses_ = []
        for _ in range(self.epochs):
            for idx in torch.randperm(len(xs), device=self.device_).split(16):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(self.model_(xs[idx]), ys[idx])
                loss.backward()
                optimizer.step()
            self.losses_.append(loss.item())
        return self

    def predict(self, X):
        with torch.no_grad():
            scores = self.model_(torch.as_tensor(X, dtype=torch.float32, device=self.device_))
        return self.classes_[scores.argmax(1).cpu().numpy()]


# %%
pipeline = make_pipeline(StandardScaler(), PCA(8, random_state=0), TorchMLP())
grid = {"torchmlp__hidden": [8, 32], "torchmlp__lr": [0.003, 0.03]}
search = GridSearchCV(pipeline, grid, cv=3)

# %% train
search.fit(X_train, y_train)
print(search.best_params_)
print(f"{accuracy_score(y_test, search.predict(X_test)):.3f}")

# %%
print(len(search.best_estimator_[-1].losses_), search.cv_results_["mean_test_score"].round(3).tolist())
